"""What goes along with a document: what it names, from its own folder, and nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fanfold.assets import Collection, collect, css_references, html_references
from fanfold.client.errors import NotSendable
from fanfold.submission import Sources, gather


def write(folder: Path, **files: str) -> None:
    """Files by name; `__` stands for a slash and `_` before the last word for a dot."""
    for name, text in files.items():
        stem, _, suffix = name.replace('__', '/').rpartition('_')
        path = folder / f'{stem}.{suffix}'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(path: Path) -> list[str]:
    return sorted(gather(Sources(paths=[path])).files)


def test_html_names_what_it_loads():
    text = """
        <link rel=stylesheet href="a.css?v=1"><style>@import 'b.css'; p { background: url(c.png) }</style>
        <img src=d.jpg><object data=e.svg></object><embed src=f.pdf><svg><image xlink:href="g.png"/></svg>
        <p style="background: url('h i.png')"><a href=page.html>no</a><a rel=attachment href=j.csv>yes</a>
    """
    expected = {'a.css?v=1', 'b.css', 'c.png', 'd.jpg', 'e.svg', 'f.pdf', 'g.png', 'h i.png', 'j.csv'}
    assert set(html_references(text)) == expected


@pytest.mark.parametrize(
    ('css', 'expected'),
    [
        ('@font-face { src: local(x), url("a.woff2") format("woff2") }', ['a.woff2']),
        ('@import url(a.css); @import "b.css" print;', ['b.css', 'a.css']),
        ('/* url(no.png) */ p { content: url( yes.png ) }', ['yes.png']),
        (r'p { background: url(a\ b\(1\).png) }', ['a b(1).png']),
        ("p { background: URL('it\\'s.png') }", ["it's.png"]),
    ],
)
def test_css_names_what_it_loads(css, expected):
    assert list(css_references(css)) == expected


def test_style_sheets_are_followed_from_where_they_lie(tmp_path):
    write(
        tmp_path,
        index_html='<link rel=stylesheet href=css/a.css>',
        css__a_css='@import "more/b.css"; @font-face { src: url(../fonts/f.ttf) }',
        css__more__b_css='p { background: url("pixel.png") }',
        css__more__pixel_png='x',
        fonts__f_ttf='x',
        unrelated_html='x',
    )
    assert names(tmp_path / 'index.html') == [
        'css/a.css',
        'css/more/b.css',
        'css/more/pixel.png',
        'fonts/f.ttf',
        'index.html',
    ]


def test_style_sheets_that_import_each_other_end(tmp_path):
    write(tmp_path, a_html='<link href=b.css>', b_css='@import "c.css"', c_css='@import "b.css"')
    assert names(tmp_path / 'a.html') == ['a.html', 'b.css', 'c.css']


def test_names_are_percent_decoded_and_without_query_or_fragment(tmp_path):
    (tmp_path / 'ein Bild.svg').write_text('<svg/>')
    write(tmp_path, a_html='<img src="ein%20Bild.svg?x=1#part">')
    assert names(tmp_path / 'a.html') == ['a.html', 'ein Bild.svg']


def test_only_files_below_the_documents_folder_go_along(tmp_path):
    write(
        tmp_path,
        secret_css='p {}',
        in__a_html='<link href=../secret.css><link href=/etc/passwd><link href=gone.css><img src=sub>',
        in__sub__x_png='x',
    )
    os.symlink(tmp_path / 'secret.css', tmp_path / 'in/link.css')
    (tmp_path / 'in/b.html').write_text('<link href=link.css>')
    submission = gather(Sources(paths=[tmp_path / 'in/a.html', tmp_path / 'in/b.html']))
    assert sorted(submission.files) == ['a.html', 'b.html']
    reasons = {text.split(' in ')[0]: text.rpartition(': ')[2] for text in submission.left_out}
    assert reasons == {
        '../secret.css': f'outside {tmp_path / "in"}',
        '/etc/passwd': f'outside {tmp_path / "in"}',
        'gone.css': 'no such file',
        'sub': 'not a file',
        'link.css': f'a link that leads out of {tmp_path / "in"}',
    }


def test_addresses_of_the_web_and_data_are_not_files(tmp_path):
    write(
        tmp_path, a_html='<img src="https://example.org/a.png"><img src="data:,x"><img src="//cdn/a.png"><img src="">'
    )
    submission = gather(Sources(paths=[tmp_path / 'a.html']))
    assert (list(submission.files), submission.left_out) == (['a.html'], [])


def test_what_is_collected_has_a_limit(tmp_path):
    write(tmp_path, a_html='<img src=b.png>', b_png='x' * 1_000)
    with pytest.raises(NotSendable, match=r'b\.png.*over 900 bytes.*--files'):
        collect(tmp_path / 'a.html', into=Collection(), limit_bytes=900)


def test_documents_keep_their_order_and_names_from_the_folder_that_holds_all(tmp_path):
    write(tmp_path, b__z_html='<img src=i.png>', b__i_png='b', a__y_html='<img src=i.png>', a__i_png='a')
    submission = gather(Sources(paths=[tmp_path / 'b/z.html', tmp_path / 'a/y.html']))
    assert submission.documents == [{'file': 'b/z.html'}, {'file': 'a/y.html'}]
    assert sorted(submission.files) == ['a/i.png', 'a/y.html', 'b/i.png', 'b/z.html']


def test_a_folder_is_sent_as_it_is_but_for_hidden_files_and_links_out(tmp_path):
    write(tmp_path, in__index_html='<p>', in__deep__er__x_bin='x', out_txt='x')
    (tmp_path / 'in/.git').mkdir()
    (tmp_path / 'in/.git/config').write_text('')
    os.symlink(tmp_path / 'out.txt', tmp_path / 'in/link.txt')
    for sources in (
        Sources(paths=[tmp_path / 'in']),
        Sources(paths=[tmp_path / 'in/index.html'], folder=tmp_path / 'in'),
        Sources(paths=[Path('index.html')], folder=tmp_path / 'in'),
    ):
        submission = gather(sources)
        assert submission.documents == [{'file': 'index.html'}]
        assert sorted(submission.files) == ['deep/er/x.bin', 'index.html']
        assert len(submission.left_out) == 2


def test_a_template_goes_with_its_records_its_includes_and_its_assets(tmp_path):
    write(
        tmp_path,
        in__t_html='{% extends "base/frame.html" %}<img src="{{ logo }}"><link href=t.css>{% include "row.html" %}',
        in__t_css='p {}',
        in__base__frame_html='<img src=logo.png>',
        in__logo_png='x',
        in__row_html='<td>',
        elsewhere__r_jsonl='{"logo": "x.png"}\n',
    )
    submission = gather(Sources(template=tmp_path / 'in/t.html', records=tmp_path / 'elsewhere/r.jsonl'))
    assert submission.documents == [{'template_file': 't.html', 'records_file': 'extra/1/r.jsonl'}]
    assert sorted(submission.files) == [
        'base/frame.html',
        'extra/1/r.jsonl',
        'logo.png',
        'row.html',
        't.css',
        't.html',
    ]
    assert submission.left_out == []


def test_a_style_sheet_from_elsewhere_brings_its_own_files(tmp_path):
    write(tmp_path, a__doc_html='<p>', house__print_css='p { background: url(logo.png) }', house__logo_png='x')
    submission = gather(Sources(paths=[tmp_path / 'a/doc.html'], css=[tmp_path / 'house/print.css']))
    assert submission.stylesheets == ['extra/1/print.css']
    assert sorted(submission.files) == ['doc.html', 'extra/1/logo.png', 'extra/1/print.css']


def test_standard_input_is_a_document_or_the_records(tmp_path):
    write(tmp_path, t_html='{{ a }}')
    page = gather(Sources(paths=[Path('-')], stdin=b'<p>piped'))
    assert (page.documents, page.files) == ([{'file': 'stdin.html'}], {'stdin.html': b'<p>piped'})
    records = gather(Sources(template=tmp_path / 't.html', records=Path('-'), stdin=json.dumps({'a': 1}).encode()))
    assert records.files['stdin.ndjson'] == b'{"a": 1}'


@pytest.mark.parametrize(
    ('sources', 'reason'),
    [
        (Sources(), 'nothing to submit'),
        (Sources(template=Path('t.html')), 'go together'),
        (Sources(paths=[Path('gone.html')]), r'gone\.html: no such file'),
        (Sources(paths=[Path('empty')]), r'has no index\.html'),
        (Sources(paths=[Path('empty'), Path('a.html')]), 'give it alone'),
        (Sources(paths=[Path('a.html')], folder=Path('empty')), 'is not in empty'),
        (Sources(paths=[Path('-'), Path('-')]), 'given once'),
    ],
)
def test_what_cannot_be_sent_is_said(tmp_path, monkeypatch, sources, reason):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, a_html='<p>')
    (tmp_path / 'empty').mkdir()
    with pytest.raises(NotSendable, match=reason):
        gather(sources)


def test_a_pdf_is_sent_as_one(tmp_path):
    (tmp_path / 'a.html').write_text('<p>a')
    (tmp_path / 'Cover.PDF').write_bytes(b'%PDF-1.7')

    submission = gather(Sources(paths=[tmp_path / 'Cover.PDF', tmp_path / 'a.html']))

    assert submission.documents == [{'pdf_file': 'Cover.PDF'}, {'file': 'a.html'}]
    assert sorted(submission.files) == ['Cover.PDF', 'a.html']
