"""`fanfold render`: a stand-in for the `weasyprint` command, with a plan, a report and a bar of its own."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from weasyprint import DEFAULT_OPTIONS
from weasyprint.__main__ import PARSER
from weasyprint.pdf import VARIANTS as WEASYPRINT_VARIANTS

from fanfold.commands.render import RENDERING, VARIANTS, command
from tests.client.conftest import ROOT, Ran
from tests.oracle.reading import read
from tests.oracle.same import assert_same

CHAPTERS = ''.join(f'<section id="c{number}"><h1>Chapter {number}</h1><p>words</section>' for number in range(4))
PAGE = f"""<!doctype html><html lang=en><title>Book</title>
<style>@page {{ size: A6 }} section + section {{ break-before: page; colour: red }}</style>
{CHAPTERS}<p><a href="#nowhere">dead</a> <a href="#nowhere">again</a>"""
WARNINGS = """WARNING: Ignored `colour: red ` at 1:60, unknown property.
ERROR: No anchor #nowhere for internal URI reference
"""


@pytest.fixture
def page(tmp_path) -> Path:
    path = tmp_path / 'page.html'
    path.write_text(PAGE)
    return path


@pytest.fixture
def render(tmp_path) -> Callable[..., Ran]:
    """Run `fanfold render` as a process, in a folder of the test's own. `out` is decoded with surrogates."""

    def run(*arguments: str | Path, stdin: bytes = b'') -> Ran:
        return ran(sys.executable, '-m', 'fanfold', 'render', *arguments, stdin=stdin, cwd=tmp_path)

    return run


def ran(*arguments: str | Path, stdin: bytes = b'', cwd: Path) -> Ran:
    done = subprocess.run(
        [str(argument) for argument in arguments],
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
    )
    return Ran(code=done.returncode, out=done.stdout.decode(errors='surrogateescape'), err=done.stderr.decode())


def weasyprint(*arguments: str | Path, cwd: Path, stdin: bytes = b'') -> Ran:
    return ran(sys.executable, '-m', 'weasyprint', *arguments, cwd=cwd, stdin=stdin)


def each_once(lines: str) -> str:
    return ''.join(dict.fromkeys(lines.splitlines(keepends=True)))


# Options


def test_every_option_of_weasyprint_is_taken():
    ours = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    theirs = {name for action in PARSER._actions for name in action.option_strings} - {'-h', '--help'}
    assert theirs - ours == set()
    assert set(RENDERING) == set(DEFAULT_OPTIONS)
    assert set(VARIANTS) == set(WEASYPRINT_VARIANTS)


@pytest.mark.parametrize(
    'options',
    [
        ('--pdf-variant', 'pdf/ua-1', '-s', 'own.css', '--custom-metadata'),
        ('--pdf-tags', '--pdf-forms', '--uncompressed-pdf', '--pdf-version', '1.7', '--pdf-identifier', 'mine'),
        ('-a', 'own.css', '--attachment-relationship', 'Source', '-m', 'screen', '-p', '--full-fonts', '--hinting'),
        ('-j', '0', '-D', '90', '--optimize-images', '-e', 'latin-1', '-u', 'http://example.org/', '-c', 'cache'),
    ],
)
def test_options_mean_what_they_mean_to_weasyprint(render, page, tmp_path, options):
    (tmp_path / 'own.css').write_text('h1 { color: teal } @media screen { h1 { color: red } }')
    expected = weasyprint(*options, page, 'theirs.pdf', cwd=tmp_path)
    found = render(*options, page, 'ours.pdf')
    assert (found.code, found.out, found.err) == (expected.code, expected.out, each_once(expected.err))
    assert_same((tmp_path / 'theirs.pdf').read_bytes(), (tmp_path / 'ours.pdf').read_bytes())


@pytest.mark.parametrize(
    ('arguments', 'complaint'),
    [
        ((), 'Usage:'),
        (('page.html', '--windows', '0'), "'0' is neither a number from 1 on nor all or auto"),
        (('page.html', '--windows', 'many'), "'many' is neither a number"),
        (('page.html', '--workers', '0'), '0 is not in the range'),
        (('page.html', '--dpii', '3'), "No such option '--dpii'"),
        (('page.html', '--dpi', 'high'), "'high' is not a valid integer"),
        (('page.html', '--pdf-variant', 'pdf/b'), "'pdf/b' is not one of"),
        (('page.html', 'a.pdf', '-o', 'b.pdf'), 'OUT is given twice'),
        (('page.html', '-v', '-q'), 'do not go together'),
        (('page.html', '.'), '. is a folder'),
        (('page.html', '-', '--report', '-'), 'the report cannot'),
    ],
)
def test_a_bad_command_line_exits_with_2_and_says_why(fanfold, arguments, complaint):
    found = fanfold('render', *arguments)
    assert found.code == 2
    assert complaint in found.err


# What is read and written


def test_the_pdf_and_the_messages_are_those_of_weasyprint(render, page, tmp_path):
    expected = weasyprint(page, 'theirs.pdf', cwd=tmp_path)
    found = render(page, 'ours.pdf')
    assert (found.code, found.out, found.err) == (0, '', WARNINGS)
    assert each_once(expected.err) == WARNINGS
    assert_same((tmp_path / 'theirs.pdf').read_bytes(), (tmp_path / 'ours.pdf').read_bytes())


def test_without_a_name_the_pdf_is_named_after_the_document_and_that_is_printed(render, page, tmp_path):
    assert render(page, '-q').out == 'page.pdf\n'
    assert len(read((tmp_path / 'page.pdf').read_bytes())['pages']) == 4


def test_standard_input_and_output(render, tmp_path):
    (tmp_path / 'own.css').write_text('@page { size: A5 }')
    found = render('-', '-', stdin=b'<link rel=stylesheet href=own.css><p>from here')
    page = read(found.out.encode(errors='surrogateescape'))['pages'][0]
    assert (found.code, found.err) == (0, '')
    assert (page['text'], page['boxes']['/MediaBox'][2:]) == ('from here', (419.53, 595.28))
    assert render('-', '-o', 'out.pdf', stdin=b'<p>x').out == ''
    assert (tmp_path / 'out.pdf').exists()


def test_a_device_is_written_as_it_is(render, page):
    assert render(page, '/dev/stdout', '-q').out.startswith('%PDF')


def test_what_cannot_be_read_is_said_in_one_line(render, page, tmp_path):
    for arguments, message in {
        ('none.html', 'x.pdf'): 'Error: none.html cannot be read: No such file or directory\n',
        ('page.html', 'x.pdf', '-q', '-s', 'none.css'): 'Error: none.css cannot be read: No such file or directory\n',
        ('page.html', 'none/x.pdf', '-q'): 'Error: none/x.pdf cannot be written: No such file or directory\n',
    }.items():
        found = render(*arguments)
        assert (found.code, found.err) == (weasyprint(*arguments, cwd=tmp_path).code, message)
        assert found.code == 1


def test_a_document_that_fails_leaves_the_file_that_was_there(render, tmp_path):
    (tmp_path / 'out.pdf').write_bytes(b'the one before')
    assert render('none.html', 'out.pdf').code == 1
    assert [path.name for path in tmp_path.iterdir()] == ['out.pdf']
    assert (tmp_path / 'out.pdf').read_bytes() == b'the one before'


TWO_CHAPTERS = '<section>one</section><section style="break-before: page">two {}</section>'


@pytest.mark.parametrize(
    'document',
    [
        TWO_CHAPTERS.format(
            '<style>a::after { content: target-counter(attr(href), pages) }</style><a href="#b">x</a><p id=b>'
        ),
        TWO_CHAPTERS.format('<input type=submit>'),
    ],
    ids=['not laid out', 'not painted'],
)
def test_a_document_that_weasyprint_cannot_render_is_told_with_its_error(render, tmp_path, document):
    (tmp_path / 'bad.html').write_text(document)
    expected = weasyprint('bad.html', 'out.pdf', '--pdf-forms', cwd=tmp_path)
    found = render('bad.html', 'out.pdf', '--pdf-forms', '--windows', 'all')
    assert (found.code, found.out) == (expected.code, '') == (1, '')
    error = expected.err.splitlines()[-1]
    assert found.err == f'Error: bad.html cannot be rendered: {error}\n'


@pytest.fixture
def site() -> Iterator[str]:
    """A web site with one page, an image that there is not, and an address that leads to the page."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = {'/': (200, b'<p>hello<img src=/gone.png>'), '/moved': (302, b'')}.get(self.path, (404, b''))
            self.send_response(found[0])
            self.send_header('Content-Type', 'text/html')
            self.send_header('Location', '/')
            self.end_headers()
            self.wfile.write(found[1])

        def log_message(self, *arguments: object) -> None: ...

    with HTTPServer(('127.0.0.1', 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f'http://127.0.0.1:{server.server_port}/'
        server.shutdown()
        thread.join()


def test_addresses_are_loaded_as_weasyprint_loads_them(render, site, tmp_path):
    plain = render(site, '-')
    assert plain.out.startswith('%PDF')
    assert plain.err.startswith('ERROR: Failed to load image at')
    assert render(f'{site}moved', '-').out == plain.out
    for arguments in (
        (site, 'x.pdf', '--fail-on-http-errors'),
        (f'{site}moved', 'x.pdf', '--no-http-redirects'),
        (site, 'x.pdf', '--allowed-protocols', 'file, data'),
    ):
        found = render(*arguments)
        assert found.code == weasyprint(*arguments, cwd=tmp_path).code == 1
        assert found.err.count('\n') == 1
        assert site in found.err


# Plan, report, messages, bar


def test_a_plan_lists_windows_and_renders_nothing(render, page, tmp_path):
    found = render(page, '--plan', '--windows', '2', '-q', '--report', 'plan.json')
    assert (found.code, found.err) == (0, '')
    first, *rows = found.out.splitlines()
    assert first == '3 seams, 2 windows'
    assert [row.split('%  ')[1] for row in rows] == ['the beginning', '#c2 (page)']
    plan = json.loads((tmp_path / 'plan.json').read_text())
    assert [seam['label'] for seam in plan['seams']] == ['#c1', '#c2', '#c3']
    assert [window['label'] for window in plan['windows']] == ['', '#c2']
    assert sorted(path.name for path in tmp_path.iterdir()) == ['page.html', 'plan.json']


def test_a_plan_says_why_a_document_is_rendered_whole(render, tmp_path):
    (tmp_path / 'flow.html').write_text('<p>one<p>two')
    found = render('flow.html', '--plan')
    assert found.out.startswith('0 seams, 1 window\nwhole: no forced page break found')


def test_a_report_says_what_was_done(render, page, tmp_path):
    found = render(page, 'out.pdf', '-q', '--windows', '1', '--report', '-')
    report = json.loads(found.out)
    assert (report['pages'], report['windows'], report['rounds']) == (4, 1, 1)
    assert report['whole_because']
    (part,) = report['parts']
    assert (part['window'], part['first_page'], part['pages']) == (0, 1, 4)
    assert min(part['layout_seconds'], part['paint_seconds'], part['memory_bytes']) > 0


def test_messages_are_shown_as_asked(render, page):
    assert render(page, 'out.pdf', '-q').err == ''
    assert 'INFO: Step 6 - Creating PDF\n' in render(page, 'out.pdf', '-v').err
    debugged = render(page, 'out.pdf', '-d').err
    assert 'WARNING: weasyprint __init__.py:' in debugged or 'WARNING: weasyprint ' in debugged


def test_a_terminal_gets_a_bar_and_the_messages_above_it(page, tmp_path):
    control, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, '-m', 'fanfold', 'render', str(page), 'out.pdf'],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=terminal,
        cwd=tmp_path,
        env={**os.environ, 'PYTHONPATH': str(ROOT), 'TERM': 'xterm', 'COLUMNS': '100'},
    )
    os.close(terminal)
    shown = b''
    try:
        while chunk := os.read(control, 65_536):
            shown += chunk
    except OSError:  # the other side has closed it
        pass
    os.close(control)
    assert process.communicate(timeout=60)[0] == b''
    assert process.returncode == 0
    assert b'painting' in shown
    assert b'4 pages' in shown
    assert shown.count(b'WARNING: Ignored `colour: red `') == 1


@pytest.mark.parametrize(('number', 'code'), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_in_the_middle_it_leaves_no_file_and_no_process(tmp_path, number, code):
    chapters = ''.join(f'<section style="break-before: page"><p>{"word " * 60_000}</section>' for _ in range(3))
    source = tmp_path / 'long.html'
    source.write_text(f'<!doctype html><body>{chapters}')
    temporary = tmp_path / 'tmp'
    temporary.mkdir()
    command = [sys.executable, '-m', 'fanfold', 'render', str(source), str(tmp_path / 'out.pdf'), '--workers', '2']
    environment = {**os.environ, 'TMPDIR': str(temporary)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    while not list(temporary.glob('fanfold-render-*/zygote/*/1/request.json')):
        assert process.poll() is None
    process.send_signal(number)
    assert process.wait(30) == code
    assert list(temporary.iterdir()) == []
    assert not (tmp_path / 'out.pdf').exists()
