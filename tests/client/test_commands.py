"""The commands: what they print where, and the exit codes."""

from __future__ import annotations

import importlib
import io
import json
import os
import pty
import signal
import subprocess
import sys
import threading
from pathlib import Path

import click
import pytest
from starlette.responses import Response

import fanfold as package
from fanfold.cli import NAMES, SECTIONS
from fanfold.commands.submit import LISTS, TEXT, parse_options
from tests.client.conftest import ROOT, start
from tests.client.service import Breaking, events, job_json, problem

PDF = b'%PDF-1.7 the whole of it'
JOB = '/v1/jobs/a-job'
DONE = job_json('completed', pages=3, parts={'done': 1, 'total': 1}, timings={'total': 0.5})


@pytest.fixture
def page(tmp_path) -> Path:
    path = tmp_path / 'page.html'
    path.write_text('<p>the page')
    return path


@pytest.fixture
def completing(service):
    """A service whose job completes and has a PDF."""
    service.answers('POST', '/v1/jobs', job_json())
    service.answers('GET', JOB, job_json())
    service.answers('GET', f'{JOB}/events', events(job_json('rendering'), DONE))
    service.answers('GET', f'{JOB}/result', Response(PDF, headers={'ETag': '"v1"'}))
    return service


def sent_job(service) -> dict:
    body = next(request.body for request in service.asked if request.method == 'POST').decode()
    return json.loads(body.split('name="job"\r\n\r\n')[1].split('\r\n')[0])


def test_help_is_quick_and_loads_no_command():
    code = """
import runpy, sys
sys.argv = ['fanfold', '--help']
try:
    runpy.run_module('fanfold', run_name='__main__')
except SystemExit:
    print(*sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert not loaded & {'weasyprint', 'boto3', 'httpx', 'pydantic', 'rich', 'asyncio', 'psycopg', 'runtime', 'schema'}
    assert [name for name in NAMES if f'\n  {name} ' not in done.stdout] == []


@pytest.mark.parametrize('name', NAMES)
def test_each_command_loads_and_explains_itself(name):
    command = importlib.import_module(f'fanfold.commands.{name}').command
    assert isinstance(command, click.Command)
    assert command.help
    assert all(parameter.help for parameter in command.params if isinstance(parameter, click.Option))


def test_each_command_is_on_the_page_of_the_docs():
    text = (ROOT / 'docs/cli.md').read_text()
    for name in NAMES:
        command = importlib.import_module(f'fanfold.commands.{name}').command
        assert f'fanfold {name}' in text
        if name in {*SECTIONS['Jobs'], 'health', 'demo'}:
            options = {option for parameter in command.params for option in parameter.opts if option.startswith('--')}
            assert {option for option in options if option not in text} == set()


def test_the_version_is_that_of_the_project():
    import tomllib

    project = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']
    assert package.__version__ == project['version']


def test_submit_prints_the_id_and_waits(fanfold, completing, page):
    ran = fanfold('submit', page)
    assert (ran.code, ran.out, ran.err) == (0, 'a-job\n', '')
    assert sent_job(completing) == {'documents': [{'file': 'page.html'}]}


def test_submit_without_waiting_asks_nothing_more(fanfold, completing, page):
    assert fanfold('submit', page, '--no-wait').out == 'a-job\n'
    assert completing.paths() == ['POST /v1/jobs']


def test_submit_with_an_output_prints_its_path_when_it_is_there(fanfold, completing, page, tmp_path):
    ran = fanfold('submit', page, '-o', tmp_path / 'out.pdf')
    assert (ran.code, ran.out, ran.err) == (0, f'{tmp_path / "out.pdf"}\n', '')
    assert (tmp_path / 'out.pdf').read_bytes() == PDF


def test_submit_writes_the_pdf_alone_to_a_pipe(fanfold, completing, page):
    assert fanfold('submit', page, '-o', '-').out == PDF.decode()


def test_submit_prints_the_finished_job_as_json(fanfold, completing, page, tmp_path):
    assert json.loads(fanfold('submit', page, '--json', '-o', tmp_path).out) == DONE
    assert (tmp_path / 'a-job.pdf').read_bytes() == PDF


def test_submit_says_how_to_render(fanfold, completing, page, tmp_path):
    (tmp_path / 'extra.css').write_text('p {}')
    fanfold(
        *('submit', page, '--no-wait', '--css', tmp_path / 'extra.css', '--parts', '4', '--on-part-failure', 'partial'),
        *('--deadline', '2h', '--expires-in', '1d', '--idempotency-key', 'mine'),
        *('--option', 'pdf_version=1.7', '--option', 'dpi=150', '--option', 'pdf_tags=true'),
        *('--option', 'metadata.title=2024', '--option', 'metadata.keywords=2024, b'),
    )
    assert sent_job(completing) == {
        'documents': [{'file': 'page.html'}],
        'options': {
            'pdf_version': '1.7',
            'dpi': 150,
            'pdf_tags': True,
            'metadata': {'title': '2024', 'keywords': ['2024', 'b']},
            'parts': 4,
            'stylesheets': ['extra.css'],
        },
        'on_part_failure': 'partial',
        'deadline': 7200.0,
        'expires_in': 86400.0,
    }
    assert completing.asked[0].headers['idempotency-key'] == 'mine'


def test_submit_lists_what_is_sent_and_always_what_is_not(fanfold, completing, tmp_path):
    (tmp_path / 'page.html').write_text('<img src=gone.png>')
    assert fanfold('submit', tmp_path / 'page.html').err.startswith('not sent  gone.png in ')
    assert fanfold('submit', '-v', tmp_path / 'page.html').err.startswith('sent      page.html\nnot sent')


def test_submit_tells_warnings_and_what_is_missing(fanfold, service, page):
    service.answers('POST', '/v1/jobs', job_json())
    missing = [{'document': 0, 'record': 17, 'detail': 'no field total'}]
    service.answers('GET', JOB, job_json('completed', warnings=['image.png is broken'], missing=missing))
    ran = fanfold('submit', page)
    assert (ran.code, ran.err) == (
        0,
        'missing    document 0 record 17: no field total\nwarning    image.png is broken\n',
    )


def test_submit_tells_how_much_more_is_missing_than_is_listed(fanfold, service, page):
    service.answers('POST', '/v1/jobs', job_json())
    missing = [{'document': 0, 'detail': 'bad'}]
    service.answers('GET', JOB, job_json('completed', missing=missing, missing_count=1_234))
    assert fanfold('submit', page).err == 'missing    document 0: bad\nmissing    and 1,233 more\n'


def test_a_list_is_written_with_commas_or_as_json():
    assert parse_options(['attachments=a.csv,b.csv', 'stylesheets=["c,d.css"]']) == {
        'attachments': ['a.csv', 'b.csv'],
        'stylesheets': ['c,d.css'],
    }


def test_types_of_options_are_those_of_the_api():
    from api.options import Encryption, Metadata, Options

    def fields(model, prefix=''):
        return {f'{prefix}{name}': str(field.annotation) for name, field in model.model_fields.items()}

    kinds = {**fields(Options), **fields(Metadata, 'metadata.'), **fields(Encryption, 'encrypt.')}
    assert {name for name, kind in kinds.items() if 'list' in kind} == LISTS
    others = {name for name, kind in kinds.items() if any(word in kind for word in ('bool', 'int', 'float', 'list'))}
    assert set(kinds) - others - {'metadata', 'encrypt'} == TEXT


@pytest.mark.parametrize('bad', ['nothing', '=x', 'parts'])
def test_an_option_is_a_key_and_a_value(bad):
    with pytest.raises(click.BadParameter, match='KEY=VALUE'):
        parse_options([bad])


@pytest.mark.parametrize('status', ['failed', 'cancelled'])
def test_a_job_that_does_not_complete_exits_with_1(fanfold, service, page, status):
    failure = {'type': 'urn:fanfold:template-error', 'title': 'The template failed', 'detail': 'division by zero'}
    service.answers('POST', '/v1/jobs', job_json())
    service.answers('GET', JOB, job_json(status, failure=failure))
    service.answers('GET', f'{JOB}/result', problem(409, 'conflict'))
    for arguments in (['submit', page], ['download', 'a-job', '--wait'], ['download', 'a-job'], ['status', 'a-job']):
        ran = fanfold(*arguments)
        assert ran.code == 1
        assert 'division by zero' in ran.err + ran.out
    assert not Path('a-job.pdf').exists()


@pytest.mark.parametrize(
    'arguments',
    [
        ['submit'],
        ['submit', 'gone.html'],
        ['submit', 'page.html', '--no-wait', '-o', 'x.pdf'],
        ['submit', 'page.html', '-o', 'no/such/folder/x.pdf'],
        ['submit', 'page.html', '--deadline', 'soon'],
        ['submit', 'page.html', '--option', 'dpi'],
        ['submit', 'page.html', '--no-such-option'],
        ['nonsense'],
        ['status'],
        ['download', 'a-job', '-o', 'no/such/folder/x.pdf'],
    ],
)
def test_a_wrong_command_line_exits_with_2(fanfold, service, page, monkeypatch, arguments):
    monkeypatch.chdir(page.parent)
    ran = fanfold(*arguments)
    assert (ran.code, ran.out) == (2, '')
    assert ran.err
    assert service.asked == []


def test_a_service_that_is_away_exits_with_3(fanfold, service, page):
    for method, path in (('POST', '/v1/jobs'), ('GET', JOB), ('GET', '/healthz')):
        service.answers(method, path, problem(503, 'unavailable', {'Retry-After': '9'}, detail='the database is away'))
    for arguments in (['submit', page], ['status', 'a-job'], ['health']):
        ran = fanfold(*arguments)
        assert ran.code == 3
        assert 'the database is away' in ran.err
    nobody = fanfold('health', '--url', 'http://127.0.0.1:1')
    assert (nobody.code, nobody.out) == (3, '')
    assert 'cannot reach http://127.0.0.1:1' in nobody.err


def test_a_refusal_exits_with_4_and_names_the_field_and_its_values(fanfold, service, page):
    fault = {
        'field': 'options.pdf_variant',
        'detail': 'must be one of the valid values',
        'valid': ['pdf/a-1b', 'debug'],
    }
    service.answers('POST', '/v1/jobs', problem(422, 'invalid-request', errors=[fault]))
    ran = fanfold('submit', page, '--option', 'pdf_variant=x')
    assert ran.code == 4
    assert 'options.pdf_variant: must be one of the valid values\n    valid: pdf/a-1b, debug' in ran.err
    assert 'urn:fanfold:invalid-request' in ran.err


def test_a_job_that_is_not_there_exits_with_4(fanfold):
    for arguments in (['status', 'x'], ['cancel', 'x'], ['retry', 'x'], ['delete', 'x'], ['download', 'x']):
        assert fanfold(*arguments).code == 4


def test_status_describes_a_job(fanfold, service):
    service.answers('GET', JOB, DONE)
    ran = fanfold('status', 'a-job')
    assert ran.code == 0
    assert 'status     completed\nparts      1 of 1\npages      3\nseconds    total 0.50' in ran.out
    assert json.loads(fanfold('status', 'a-job', '--json').out) == DONE


PLAN = {
    'windows': 2,
    'seams': [{'label': '#c1', 'break': 'page', 'page': None}],
    'rounds': [{'round': 1, 'windows': 2, 'why': 'first'}, {'round': 2, 'windows': 1, 'why': 'again'}],
    'whole_because': None,
}


def test_status_tells_where_a_long_document_is_split_and_why_it_was_laid_out_again(fanfold, service):
    laying_out = {'no': 2, 'kind': 'layout', 'done': 1, 'total': 2}
    service.answers('GET', JOB, job_json('rendering', batch=laying_out, plan=PLAN))
    out = fanfold('status', 'a-job').out
    assert 'rendering, laying out' in out
    assert 'windows    2, split at #c1\nround 1    first\nround 2    again\n' in out


def test_status_tells_why_a_document_is_not_split(fanfold, service):
    whole = {'windows': 1, 'seams': [], 'rounds': [], 'whole_because': 'too short'}
    service.answers('GET', JOB, job_json('completed', plan=whole))
    assert 'windows    1: too short\n' in fanfold('status', 'a-job').out


def test_a_watched_job_is_a_line_for_each_change_in_a_pipe(fanfold, completing):
    ran = fanfold('status', 'a-job', '--watch')
    assert [line.split()[0] for line in ran.out.splitlines()] == ['queued', 'rendering', 'completed']
    lines = fanfold('status', 'a-job', '--watch', '--json').out.splitlines()
    assert [json.loads(line)['status'] for line in lines] == ['queued', 'rendering', 'completed']


@pytest.mark.parametrize(('pages', 'said'), [(1, '  1 page'), (1_200, '  1,200 pages')])
def test_a_line_of_a_watched_job_counts_its_pages(fanfold, service, pages, said):
    service.answers('GET', JOB, job_json('completed', pages=pages))
    assert fanfold('status', 'a-job', '--watch').out.endswith(f'{said}\n')


def test_list_is_tab_separated_in_a_pipe(fanfold, service):
    service.answers('GET', '/v1/jobs', {'jobs': [DONE, job_json()]})
    assert [line.split('\t')[:3] for line in fanfold('list').out.splitlines()] == [
        ['a-job', 'completed', '3'],
        ['a-job', 'queued', ''],
    ]


def test_cancel_retry_and_delete_print_the_ids(fanfold, service):
    service.answers('POST', f'{JOB}/cancel', job_json('cancelled'))
    service.answers('POST', f'{JOB}/retry', job_json('rendering'))
    service.answers('DELETE', JOB, Response(status_code=204))
    assert fanfold('cancel', 'a-job', 'a-job').out == 'a-job\na-job\n'
    assert fanfold('retry', 'a-job').out == 'a-job\n'
    assert fanfold('delete', 'a-job').out == 'a-job\n'


def test_a_job_that_is_refused_does_not_keep_others_from_their_turn(fanfold, service):
    service.answers('POST', f'{JOB}/cancel', job_json('cancelled'))
    service.answers('POST', f'{JOB}/retry', job_json('rendering'))
    service.answers('GET', JOB, job_json('failed'))
    service.answers('DELETE', JOB, Response(status_code=204))
    for command in (['cancel'], ['retry'], ['retry', '--wait'], ['delete']):
        ran = fanfold(*command, 'gone', 'a-job')
        assert (ran.code, ran.out) == (4, 'a-job\n')
        assert 'Error: ' in ran.err
    waited = fanfold('retry', '--wait', 'a-job')
    assert (waited.code, waited.err) == (1, 'Error: job a-job has failed\n')


def test_an_address_that_is_none_exits_with_2(fanfold, monkeypatch):
    monkeypatch.setenv('FANFOLD_URL', 'garbage')
    for arguments in (['list'], ['health'], ['cancel', 'a-job']):
        ran = fanfold(*arguments)
        assert (ran.code, ran.out) == (2, '')
        assert "'garbage' is not the URL of a service" in ran.err


def test_records_come_through_a_pipe(completing, tmp_path):
    (tmp_path / 't.html').write_text('{{ a }}')
    submit = start(
        *('submit', '--template', tmp_path / 't.html', '--records', '-', '-o', '-'),
        url=completing.url,
        stdin=subprocess.PIPE,
    )
    out, err = submit.communicate(b'{"a": 1}\n')
    assert (submit.returncode, out, err) == (0, PDF, b'')
    assert b'{"a": 1}\n' in completing.asked[0].body


def test_ctrl_c_ends_the_wait_but_not_the_job(service, page):
    waiting = threading.Event()

    async def for_ever() -> None:
        import asyncio

        waiting.set()
        await asyncio.Event().wait()

    service.answers('POST', '/v1/jobs', job_json())
    service.answers('GET', JOB, job_json())
    service.answers('GET', f'{JOB}/events', events(on_open=for_ever))
    submit = start('submit', page, url=service.url)
    assert waiting.wait(30)
    submit.send_signal(signal.SIGINT)
    out, err = submit.communicate(timeout=30)
    assert (submit.returncode, out) == (130, b'a-job\n')
    assert b'job a-job goes on; fanfold cancel a-job' in err
    assert b'Traceback' not in err


def test_ctrl_c_leaves_no_unfinished_file(service, tmp_path):
    arrived = threading.Event()

    class Stalling(Breaking):
        async def __call__(self, scope, receive, send) -> None:
            import asyncio

            await super().__call__(scope, receive, send)
            arrived.set()
            await asyncio.Event().wait()

    service.answers('GET', f'{JOB}/result', Stalling(PDF, after=4))
    download = start('download', 'a-job', '-o', tmp_path / 'x.pdf', url=service.url)
    assert arrived.wait(30)
    download.send_signal(signal.SIGINT)
    _, err = download.communicate(timeout=30)
    assert download.returncode == 130
    assert b'Traceback' not in err
    assert os.listdir(tmp_path) == []


def test_a_reader_that_goes_away_is_no_crash(service):
    service.answers('GET', '/v1/jobs', {'jobs': [DONE] * 90, 'next': '/v1/jobs'})
    listing = start('list', '--all', url=service.url)
    assert listing.stdout.readline()
    listing.stdout.close()
    assert listing.wait(30) == 1
    assert listing.stderr.read() == b''
    listing.stderr.close()


def test_bars_are_for_the_terminal_and_standard_output_stays_clean(completing, page):
    mine, theirs = pty.openpty()
    submit = start('submit', page, url=completing.url, stderr=theirs)
    os.close(theirs)
    out = submit.stdout.read()
    shown = b''
    with io.FileIO(mine) as terminal:
        try:
            while chunk := terminal.read(4096):
                shown += chunk
        except OSError:  # how Linux says that the other side of a terminal is closed
            pass
    submit.stdout.close()
    assert (submit.wait(30), out) == (0, b'a-job\n')
    assert b'submitting' in shown or b'completed' in shown
