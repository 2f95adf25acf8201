"""Painting gives the pages that WeasyPrint gives, whatever is shared behind them."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pikepdf
import pytest
from weasyprint import HTML

from renderer.templates import Template
from runtime.errors import Refusal
from tests.renderer.bundles import MakeJob, a_font, a_png, fixture, invoice_files, invoice_records
from tests.renderer.looks import looks, outline

# WeasyPrint leaves its ICC profile open
pytestmark = pytest.mark.filterwarnings('ignore:.*sRGB2014:pytest.PytestUnraisableExceptionWarning')


class OnDisk:
    """The files of a job in a folder, where plain WeasyPrint finds them: the oracle."""

    def __init__(self, folder: Path, files: Mapping[str, bytes]) -> None:
        self.folder = folder
        self.files = files
        for name, data in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def file(self, name: str) -> bytes | None:
        return self.files.get(name)

    def write(self, name: str, record: Mapping[str, Any] | None = None, **options: Any) -> bytes:
        if record is None:
            pdf: bytes = HTML(filename=self.folder / name).write_pdf(**options)
            return pdf
        html = Template(self.files[name].decode(), f'files/{name}', self).fill(record, 0)
        pdf = HTML(string=html, base_url=str(self.folder / name)).write_pdf(**options)
        return pdf


@pytest.fixture
def on_disk(tmp_path: Path) -> Any:
    def lay_out(files: Mapping[str, bytes]) -> OnDisk:
        (tmp_path / 'files').mkdir()
        return OnDisk(tmp_path / 'files', files)

    return lay_out


def ticket_records(count: int) -> list[dict[str, Any]]:
    return [
        {'show': f'Le spectacle n° {index}', 'seat': f'A{index}', 'turn': index - 2, 'holder': f'Zoë {index}'}
        for index in range(count)
    ]


def test_a_report_has_the_pages_of_weasyprint(make_job: MakeJob, on_disk: Any):
    files = fixture('report')
    result, pdf = make_job(files=files).file('report.html').paint()
    assert looks(pdf) == looks(on_disk(files).write('report.html'))
    assert (result['pages'], result['items'], result['warnings']) == (4, [[0, None, 4]], [])


@pytest.mark.parametrize(
    'options',
    [
        {},
        {'pdf_variant': 'pdf/a-3b'},
        {'pdf_variant': 'pdf/a-1b'},
        {'pdf_variant': 'pdf/ua-1'},
        {'full_fonts': True},
        {'uncompressed_pdf': True, 'pdf_version': '1.4'},
        {'dpi': 30, 'optimize_images': True},
    ],
    ids=str,
)
def test_a_run_of_records_has_the_pages_of_weasyprint(make_job: MakeJob, on_disk: Any, options: dict[str, Any]):
    files, records = invoice_files(), invoice_records(6)
    result, pdf = make_job(files=files, options=options).template('invoice.html', records).paint()
    disk = on_disk(files)
    expected = [page for record in records for page in looks(disk.write('invoice.html', record, **options))]
    assert looks(pdf) == expected
    assert result['items'] == [[0, index, 1] for index in range(6)]


def test_styles_that_vary_with_the_record_are_not_shared(make_job: MakeJob, on_disk: Any):
    files = {
        't.html': b'<style>@font-face { font-family: Mine; src: url({{ font }}) } p { font: {{ size }}pt Mine, serif }'
        b'{{ rule }}</style><p>Text {{ size }}</p><p style="font-family: Other">Other</p>',
        'one.ttf': a_font(),
        'two.ttf': a_font('DejaVuSansMono.ttf'),
    }
    records = [
        {'font': font, 'size': size, 'rule': rule}
        for font, size, rule in [
            ('one.ttf', 20, ''), ('two.ttf', 20, ''), ('one.ttf', 30, ''), ('one.ttf', 20, ''),
            ('none.ttf', 20, '@font-face { font-family: Other; src: url(two.ttf) }'), ('none.ttf', 20, ''),
        ]
    ]  # fmt: skip
    _, pdf = make_job(files=files).template('t.html', records).paint()
    disk = on_disk(files)
    assert looks(pdf) == [page for record in records for page in looks(disk.write('t.html', record))]


def test_a_font_that_an_image_brings_stays_with_its_document(make_job: MakeJob, on_disk: Any):
    svg = (
        b'<svg xmlns="http://www.w3.org/2000/svg" width="200" height="50"><style>@font-face { font-family: Leak; '
        b'src: url(leak.ttf) }</style><text y="30" font-family="Leak">In the image</text></svg>'
    )
    files = {
        't.html': b'<style>p { font-family: Leak, serif }</style><p>{{ n }}</p>'
        b'{% if n == 1 %}<img src=i.svg>{% endif %}',
        'i.svg': svg,
        'leak.ttf': a_font('DejaVuSansMono.ttf'),
    }
    records = [{'n': number} for number in range(4)]
    _, pdf = make_job(files=files).template('t.html', records).paint()
    disk = on_disk(files)
    assert looks(pdf) == [page for record in records for page in looks(disk.write('t.html', record))]


def test_documents_of_every_kind_are_bound_in_order(make_job: MakeJob, on_disk: Any):
    invoices, tickets = invoice_records(2), ticket_records(3)
    files = {**invoice_files(), **fixture('ticket'), **fixture('report')}
    job = make_job(files=files, options={'pdf_forms': True})
    job.template('ticket.html', tickets).file('report.html').template('invoice.html', invoices)
    _, pdf = job.paint()
    disk = on_disk(files)
    expected = [looks(disk.write('ticket.html', record, pdf_forms=True)) for record in tickets]
    expected.append(looks(disk.write('report.html', pdf_forms=True)))
    expected += [looks(disk.write('invoice.html', record, pdf_forms=True)) for record in invoices]
    assert looks(pdf) == [page for pages in expected for page in pages]


def test_a_part_paints_its_own_items_only(make_job: MakeJob):
    job = make_job(files=invoice_files()).html('<h1>Cover</h1>').template('invoice.html', invoice_records(9))
    seen: list[tuple[int, int | None] | None] = []
    result, pdf = job.paint(part={'first_item': 0, 'item_count': 3}, report=seen.append)
    assert seen == [(0, None), (1, 0), (1, 1), None]
    assert [(document, record) for document, record, _ in result['items']] == seen[:-1]
    with pikepdf.open(io.BytesIO(pdf)) as opened:
        assert [title for _, title in outline(opened)] == ['Cover', 'Invoice 1000', 'Invoice 1001']


def test_metadata_of_the_job_replaces_that_of_the_document(make_job: MakeJob):
    given = {'title': 'Given', 'author': 'Ä. Writer', 'subject': 'S', 'keywords': ['a', 'b']}
    for job in (
        make_job(files=fixture('report'), metadata=given).file('report.html'),
        make_job(files=fixture('report'), metadata=given).file('report.html').file('report.html'),
    ):
        _, pdf = job.paint()
        with pikepdf.open(io.BytesIO(pdf)) as opened:
            assert {key: str(value) for key, value in opened.docinfo.items()} == {
                '/Title': 'Given', '/Author': 'Ä. Writer', '/Subject': 'S', '/Keywords': 'a, b',
                '/Producer': 'WeasyPrint 70.0',
            }  # fmt: skip


def test_options_name_files_of_the_job(make_job: MakeJob):
    files = {'red.css': b'@page { margin: 0; size: 100pt 50pt } p { color: red }', 'notes.txt': b'attached'}
    job = make_job(files=files, options={'stylesheets': ['red.css'], 'attachments': ['notes.txt'], 'zoom': 2})
    _, pdf = job.html('<p>one').html('<p>two').paint()
    with pikepdf.open(io.BytesIO(pdf)) as opened:
        assert [float(page.MediaBox[2]) for page in opened.pages] == [200, 200]
        assert {name: file.get_file().read_bytes() for name, file in opened.attachments.items()} == {
            'notes.txt': b'attached'
        }


def test_a_stylesheet_that_is_not_among_the_files_is_refused(make_job: MakeJob):
    with pytest.raises(Refusal, match=r"the job has no file 'none\.css'"):
        make_job(options={'stylesheets': ['none.css']}).html('x').paint()


@pytest.mark.parametrize('options', [{'pdf_variant': 'pdf/z'}, {'speed': 'high'}])
def test_an_unknown_option_is_refused(make_job: MakeJob, options: dict[str, Any]):
    with pytest.raises(Refusal) as caught:
        make_job(options=options).html('x').paint()
    assert caught.value.problem.name == 'render-error'


def test_media_type_chooses_rules(make_job: MakeJob):
    page = '<style>@media screen { @page { margin: 0; size: 30pt 30pt } }</style>x'
    _, pdf = make_job(options={'media_type': 'screen'}).html(page).paint()
    assert looks(pdf)[0]['boxes'][0] == [0, 0, 30, 30]


@pytest.mark.parametrize(
    ('data', 'text'),
    [
        ('<meta charset=utf-8>é'.encode(), 'é'),
        ('<meta charset=iso-8859-1>é'.encode('latin-1'), 'é'),
        ('\ufeffé'.encode(), 'é'),
        (b'<meta charset=utf-8>caf\xe9', 'caf'),
        (b'', ''),
        (b'not html at all', 'not html at all'),
    ],
)
def test_html_files_are_read_in_their_own_encoding(make_job: MakeJob, data: bytes, text: str):
    _, pdf = make_job(files={'a.html': data}).file('a.html').paint()
    assert looks(pdf)[0]['text'] == text


def test_inline_html_is_text_and_needs_no_declaration(make_job: MakeJob):
    _, pdf = make_job().html('<p>été — Ω').paint()
    assert looks(pdf)[0]['text'] == 'été — Ω'


@pytest.mark.parametrize('part_of_many', [False, True])
def test_a_document_that_is_not_among_the_files_is_named(make_job: MakeJob, part_of_many: bool):
    job = make_job().file('none.html')
    if part_of_many:
        job.html('x')
    with pytest.raises(Refusal) as caught:
        job.paint()
    assert caught.value.problem.to_json() == {
        'type': 'urn:fanfold:file-missing',
        'title': 'A file that the job names is not among its files',
        'detail': "the job has no file 'none.html'",
        'document': 0,
    }


def test_a_missing_field_fails_the_part_with_document_record_and_field(make_job: MakeJob):
    records = [*invoice_records(3), {'number': 4, 'customer': 'x', 'lines': []}]
    with pytest.raises(Refusal) as caught:
        make_job(files=invoice_files()).html('<p>first').template('invoice.html', records).paint()
    problem = caught.value.problem
    assert problem.name == 'record-field-missing'
    assert {'document': 1, 'record': 3, 'field': 'total'}.items() <= problem.extra.items()


@pytest.mark.parametrize(
    ('records', 'name'),
    [(b'{"n": 1}\n{"n": 2}', 'records-invalid'), (b'{"n": 1}\n{"n": \xff}\n{}\n', 'invalid-encoding')],
)
def test_records_that_changed_since_they_were_counted_are_refused(make_job: MakeJob, records: bytes, name: str):
    job = make_job(files={'t.html': b'{{ n }}'}).template('t.html', records, count=3)
    with pytest.raises(Refusal) as caught:
        job.paint()
    assert caught.value.problem.name == name


def test_with_placeholders_only_the_bad_records_are_replaced(make_job: MakeJob):
    records: list[dict[str, Any]] = invoice_records(4)
    del records[1]['total']
    job = make_job(files=invoice_files()).template('invoice.html', records).file('none.html')
    result, pdf = job.paint(placeholders=True, skip=frozenset({2}))
    texts = [page['text'] for page in looks(pdf)]
    assert [('Invoice' in text, 'Missing' in text) for text in texts] == [
        (True, False), (False, True), (False, True), (True, False), (False, True),
    ]  # fmt: skip
    assert 'document 0, record 1' in texts[1]
    assert "no field 'total'" in ' '.join(texts[1].split())
    assert [(entry['document'], entry['record']) for entry in result['missing']] == [(0, 1), (0, 2), (1, None)]
    assert [entry['type'].rpartition(':')[2] for entry in result['missing']] == [
        'record-field-missing', 'render-error', 'file-missing',
    ]  # fmt: skip
    assert (result['missing'][0]['field'], result['missing'][0]['line'] > 0) == ('total', True)
    assert result['items'] == [[0, 0, 1], [0, 1, 1], [0, 2, 1], [0, 3, 1], [1, None, 1]]
    with pikepdf.open(io.BytesIO(pdf)) as opened:
        assert [title for _, title in outline(opened)] == ['Invoice 1000', 'Invoice 1003']


def test_a_placeholder_gives_the_job_no_title(make_job: MakeJob):
    job = make_job(files={'t.html': b'<title>{{ n }}</title>{{ n }}'}).template('t.html', [{}, {'n': 'two'}])
    _, pdf = job.paint(placeholders=True)
    with pikepdf.open(io.BytesIO(pdf)) as opened:
        assert '/Title' not in opened.docinfo


def test_nothing_but_placeholders_is_no_result(make_job: MakeJob):
    with pytest.raises(Refusal, match="no field 'n'"):
        make_job(files={'t.html': b'{{ n }}'}).template('t.html', [{}, {}]).paint(placeholders=True)
    with pytest.raises(Refusal, match='within the limits'):
        make_job().html('x').paint(placeholders=True, skip=frozenset({0}))


def test_a_broken_image_is_a_warning(make_job: MakeJob):
    files = {'bad.png': a_png()[:-40], 'worse.png': b'nothing', 'good.png': a_png()}
    page = '<img src=bad.png><img src=worse.png><img src=good.png><img src=none.png><p>text'
    result, pdf = make_job(files=files).html(page).paint()
    assert result['warnings'] == [
        "Failed to load image at 'worse.png': cannot identify image file",
        "Failed to load image at 'none.png': FileNotFoundError: the job has no file 'none.png'",
    ]
    assert looks(pdf)[0]['text'] == 'text'


def test_warnings_name_files_as_the_job_does(make_job: MakeJob):
    page = b'<img src="../c d.png"><img src="e.png"><img src="../../../out.png"><link rel=stylesheet href="/s.css">'
    result, _ = make_job(files={'a/b.html': page, 'c d.png': b'nothing'}).file('a/b.html').paint()
    assert not [line for line in result['warnings'] if 'bundle:' in line]
    found = ' '.join(result['warnings'])
    assert [name for name in ("'c d.png'", "'a/e.png'", "out.png'", 's.css') if name not in found] == []


def test_what_is_refused_is_listed_once_and_nothing_is_loaded(make_job: MakeJob):
    page = """<link rel=stylesheet href="http://127.0.0.1:9/x.css"><style>@import url(https://example.org/i.css);
      @font-face { font-family: F; src: url(ftp://example.org/f.ttf), local(Nothing) } p { font-family: F }</style>
      <img src="file:///etc/passwd"><img src="file:///etc/passwd"><img src="//example.org/a.png">
      <link rel=attachment href="file:///etc/hostname"><p>text"""
    job = make_job().html(page).html(page)
    result, pdf = job.paint()
    refused = [line for line in result['warnings'] if line.endswith('only files of the job and data: URLs are')]
    assert sorted(line.split()[0] for line in refused) == [
        '//example.org/a.png', 'file:///etc/hostname', 'file:///etc/passwd', 'ftp://example.org/f.ttf',
        'http://127.0.0.1:9/x.css', 'https://example.org/i.css',
    ]  # fmt: skip
    assert result['warnings'][: len(refused)] == refused
    with pikepdf.open(io.BytesIO(pdf)) as opened:
        assert not opened.attachments
        assert not any('/Image' in str(item) for item in opened.objects if isinstance(item, pikepdf.Stream))


def test_fonts_of_the_host_are_reached_by_local_only(make_job: MakeJob, on_disk: Any):
    files = {
        'a.html': b'<style>@font-face { font-family: L; src: local(DejaVu Sans Mono) } p { font: 12pt L, serif }'
        b'</style><p>mono</p>'
    }
    result, pdf = make_job(files=files).file('a.html').paint()
    assert looks(pdf) == looks(on_disk(files).write('a.html'))
    assert result['warnings'] == []


def test_warnings_name_the_item_and_say_how_often(make_job: MakeJob):
    files = {'t.html': b'<style>p { colour: red }</style><img src=none.png>{{ n }}'}
    result, _ = make_job(files=files).template('t.html', [{'n': number} for number in range(3)]).paint()
    assert [line for line in result['warnings'] if line.startswith('document 0, record 0: Failed to load image')]
    assert [line for line in result['warnings'] if line.endswith('(3 times)')]
    assert len(result['warnings']) == 2


def test_warnings_are_bounded(make_job: MakeJob):
    page = ''.join(f'<img src=none{number}.png>' for number in range(150))
    result, _ = make_job().html(page).paint()
    assert len(result['warnings']) == 100
