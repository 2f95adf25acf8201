"""Following a job: whole snapshots, to the end, from one poller."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from runtime.nudge import Nudger
from runtime.settings import Settings
from tests.api.jobs import Jobs


class Stream:
    """Server-sent events as they come: (id, data)."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._lines = answer.iter_lines()

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        fields: dict[str, str] = {}
        for line in self._lines:
            if not line and 'data' in fields:
                yield fields['id'], json.loads(fields['data'])
                fields = {}
            elif line and not line.startswith(':'):
                name, _, value = line.partition(': ')
                fields[name] = value


@pytest.fixture
def nudger(shared_settings: Settings) -> Nudger:
    return Nudger(shared_settings)


def test_stream_shows_every_state_and_ends_with_the_job(api: httpx.Client, jobs: Jobs, nudger: Nudger) -> None:
    job_id = jobs.submit()
    with api.stream('GET', f'/v1/jobs/{job_id}/events') as answer:
        assert answer.status_code == 200
        assert answer.headers['content-type'].startswith('text/event-stream')
        events = iter(Stream(answer))
        seen = [next(events)]
        for step in (
            lambda: jobs.plan(job_id),
            lambda: jobs.paint(job_id, 0),
            lambda: jobs.paint(job_id, 1),
            lambda: jobs.assemble(job_id, b'%PDF-'),
        ):
            step()
            nudger.nudge('jobs')
            seen.append(next(events))
        seen += list(events)
    views = [view for _, view in seen]
    assert views[0]['status'] == 'queued'
    assert [view['parts']['done'] for view in views[1:4]] == [0, 1, 2]
    assert views[-1]['status'] == 'completed'
    assert views[-1] == jobs.view(job_id)
    versions = [version for version, _ in seen]
    assert len(set(versions)) == len(versions)


def test_ended_job_sends_its_one_snapshot(api: httpx.Client, jobs: Jobs) -> None:
    job_id = jobs.failed()
    answer = api.get(f'/v1/jobs/{job_id}/events')
    [(version, view)] = Stream(answer)
    assert view['status'] == 'failed'
    again = api.get(f'/v1/jobs/{job_id}/events', headers={'Last-Event-ID': version})
    assert again.status_code == 204, 'so that a browser stops reconnecting'


def test_reconnecting_client_gets_only_what_it_does_not_know(api: httpx.Client, jobs: Jobs) -> None:
    job_id = jobs.submit()
    with api.stream('GET', f'/v1/jobs/{job_id}/events') as answer:
        version, _ = next(iter(Stream(answer)))
    with api.stream('GET', f'/v1/jobs/{job_id}/events', headers={'Last-Event-ID': version}) as answer:
        events = iter(Stream(answer))
        api.post(f'/v1/jobs/{job_id}/cancel')
        assert next(events)[1]['status'] == 'cancelled'
    with api.stream('GET', f'/v1/jobs/{job_id}/events', headers={'Last-Event-ID': 'another'}) as answer:
        assert next(iter(Stream(answer)))[1]['status'] == 'cancelled'


def test_many_streams_see_the_same(api: httpx.Client, jobs: Jobs) -> None:
    first, second = jobs.submit(), jobs.submit()
    paths = [f'/v1/jobs/{job_id}/events' for job_id in (first, first, second)]
    with (
        api.stream('GET', paths[0]) as one,
        api.stream('GET', paths[1]) as two,
        api.stream('GET', paths[2]) as three,
    ):
        streams = [iter(Stream(answer)) for answer in (one, two, three)]
        assert [next(events)[1]['status'] for events in streams] == ['queued'] * 3
        assert 'fanfold_event_streams 3.0' in api.get('/metrics').text
        api.post(f'/v1/jobs/{first}/cancel')
        assert [next(events)[1]['id'] for events in streams[:2]] == [str(first)] * 2
        assert [list(events) for events in streams[:2]] == [[], []]
        api.delete(f'/v1/jobs/{second}')
        assert next(streams[2])[1]['status'] == 'expired'


def test_heartbeat_keeps_a_quiet_stream_alive(api: httpx.Client, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('api.routes.events.HEARTBEAT_SECONDS', 0.05)
    with api.stream('GET', f'/v1/jobs/{jobs.submit()}/events') as answer:
        assert any(line.startswith(':') for line in answer.iter_lines())


def test_head_of_a_stream_ends(api: httpx.Client, jobs: Jobs) -> None:
    assert api.head(f'/v1/jobs/{jobs.submit()}/events').status_code == 200
