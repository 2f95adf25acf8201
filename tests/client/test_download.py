"""Downloads arrive whole or not at all."""

from __future__ import annotations

import io
import os

import pytest
from starlette.requests import Request
from starlette.responses import Response

from fanfold.client import JobNotCompleted, Refused, Unreachable
from fanfold.client.errors import DownloadBroken
from tests.client.service import Breaking, job_json, problem

PDF = b'%PDF-1.7 ' + bytes(range(256)) * 500
RESULT = '/v1/jobs/a-job/result'


def ranged(request: Request) -> Response:
    """The rest of the PDF, as the service sends it for `Range` with a fitting `If-Range`."""
    assert request.headers['if-range'] == '"v1"'
    start = int(request.headers['range'].removeprefix('bytes=').removesuffix('-'))
    headers = {'ETag': '"v1"', 'Content-Range': f'bytes {start}-{len(PDF) - 1}/{len(PDF)}'}
    return Response(PDF[start:], 206, headers)


def test_a_download_has_its_name_when_it_is_whole(service, client, tmp_path):
    service.answers('GET', RESULT, Response(PDF, headers={'ETag': '"v1"'}))
    received = []
    assert client.download('a-job', tmp_path / 'a.pdf', progress=lambda *state: received.append(state)) == len(PDF)
    assert (tmp_path / 'a.pdf').read_bytes() == PDF
    assert received[-1] == (len(PDF), len(PDF))
    assert os.listdir(tmp_path) == ['a.pdf']


def test_a_broken_download_goes_on_where_it_broke(service, client, tmp_path):
    service.answers('GET', RESULT, Breaking(PDF, after=50_000, headers={'ETag': '"v1"'}), ranged)
    client.download('a-job', tmp_path / 'a.pdf')
    assert (tmp_path / 'a.pdf').read_bytes() == PDF
    assert service.asked[1].headers['range'] == 'bytes=50000-'


def test_a_download_may_break_again_and_again(service, client, tmp_path):
    def rest_in_pieces(request: Request) -> Response:
        whole = ranged(request)
        return Breaking(whole.body, after=20_000, status_code=206, headers=dict(whole.headers))

    service.answers('GET', RESULT, Breaking(PDF, after=1, headers={'ETag': '"v1"'}), *[rest_in_pieces] * 6, ranged)
    client.download('a-job', tmp_path / 'a.pdf')
    assert (tmp_path / 'a.pdf').read_bytes() == PDF


def test_a_service_away_in_the_middle_is_waited_for(service, client, tmp_path):
    service.answers(
        'GET', RESULT, Breaking(PDF, after=9, headers={'ETag': '"v1"'}), problem(503, 'unavailable'), ranged
    )
    client.download('a-job', tmp_path / 'a.pdf')
    assert (tmp_path / 'a.pdf').read_bytes() == PDF


def test_a_result_that_changed_meanwhile_starts_again(service, client, tmp_path):
    other = PDF[::-1][: len(PDF) // 2]
    service.answers(
        'GET',
        RESULT,
        Breaking(PDF, after=100_000, headers={'ETag': '"v1"'}),
        Response(other, headers={'ETag': '"v2"'}),
    )
    client.download('a-job', tmp_path / 'a.pdf')
    assert (tmp_path / 'a.pdf').read_bytes() == other


def test_a_stream_cannot_start_again(service, client):
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    service.answers('GET', RESULT, Breaking(PDF, after=1_000), Response(PDF))
    with pytest.raises(DownloadBroken, match='cannot be taken back'):
        client.download('a-job', Pipe())


def test_a_stream_gets_the_rest_of_a_broken_download(service, client):
    service.answers('GET', RESULT, Breaking(PDF, after=1_000, headers={'ETag': '"v1"'}), ranged)
    pipe = io.BytesIO()
    client.download('a-job', pipe)
    assert pipe.getvalue() == PDF


def test_the_wrong_range_is_not_taken_for_the_rest(service, client, tmp_path):
    wrong = Response(PDF[7:], 206, {'Content-Range': f'bytes 7-{len(PDF) - 1}/{len(PDF)}'})
    service.answers('GET', RESULT, Breaking(PDF, after=1_000, headers={'ETag': '"v1"'}), wrong)
    with pytest.raises(DownloadBroken, match='asked for bytes from 1000'):
        client.download('a-job', tmp_path / 'a.pdf')
    assert os.listdir(tmp_path) == []


def test_a_download_that_never_gets_on_is_given_up_and_leaves_what_was_there(service, pauses, tmp_path):
    from fanfold.client import Client

    (tmp_path / 'a.pdf').write_bytes(b'the old one')
    service.answers('GET', RESULT, Breaking(PDF, after=0, headers={'ETag': '"v1"'}))
    with Client(service.url, patience=0.3, sleep=pauses.append) as client, pytest.raises(Unreachable):
        client.download('a-job', tmp_path / 'a.pdf')
    assert os.listdir(tmp_path) == ['a.pdf']
    assert (tmp_path / 'a.pdf').read_bytes() == b'the old one'


def test_a_result_that_is_not_ready_is_refused(service, client, tmp_path):
    service.answers('GET', RESULT, problem(409, 'not-ready'))
    service.answers('GET', '/v1/jobs/a-job', job_json('rendering'))
    with pytest.raises(Refused, match='not ready'):
        client.download('a-job', tmp_path / 'a.pdf')


@pytest.mark.parametrize(('status', 'answer'), [('failed', 409), ('cancelled', 409), ('expired', 410)])
def test_a_job_without_a_result_is_an_error_of_the_job(service, client, tmp_path, status, answer):
    service.answers('GET', RESULT, problem(answer, 'conflict'))
    service.answers('GET', '/v1/jobs/a-job', job_json(status))
    with pytest.raises(JobNotCompleted, match=status):
        client.download('a-job', tmp_path / 'a.pdf')
