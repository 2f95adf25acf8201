from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import pytest

from renderer.archive import Archive
from renderer.fetch import BundleFetcher, Refused, file_url

FILES = {
    'a/b.html': b'page',
    'a/c d.css': b'css',
    'img/logo.PNG': b'png',
    '100%.svg': b'svg',
    'caf\u00e9.txt': b'composed',
    'nai\u0308ve.txt': b'decomposed',
    'x?y#z.png': b'odd',
}


@pytest.fixture
def fetcher(tmp_path: Path) -> Iterator[BundleFetcher]:
    with zipfile.ZipFile(tmp_path / 'input.zip', 'w') as archive:
        for name, data in FILES.items():
            archive.writestr(f'files/{name}', data)
        archive.writestr('inline/0.html', b'inline')
    with Archive(tmp_path / 'input.zip') as opened:
        yield BundleFetcher(opened)


@pytest.mark.parametrize(
    ('url', 'data'),
    [
        ('b.html', b'page'),
        ('c%20d.css', b'css'),
        ('c d.css?v=3', b'css'),
        ('c%20d.css#part', b'css'),
        ('../img/./logo.PNG', b'png'),
        ('../../../img/logo.PNG', b'png'),
        ('/img/logo.PNG', b'png'),
        ('%2e%2e/img/logo.PNG', b'png'),
        ('BUNDLE:///a/b.html', b'page'),
        ('bundle:/a/b.html', b'page'),
        ('/100%25.svg', b'svg'),
        ('/100%.svg', b'svg'),
        ('/caf%C3%A9.txt', b'composed'),
        ('/cafe%CC%81.txt', b'composed'),
        ('/na%C3%AFve.txt', b'decomposed'),
        ('/x%3Fy%23z.png', b'odd'),
    ],
)
def test_names_are_resolved_against_the_document(fetcher: BundleFetcher, url: str, data: bytes):
    assert fetcher.fetch(urljoin('bundle:///a/b.html', url)).read() == data
    assert fetcher.refusals == {}


@pytest.mark.parametrize('name', FILES)
def test_file_urls_lead_to_their_files(fetcher: BundleFetcher, name: str):
    assert fetcher.fetch(file_url(name)).read() == FILES[name]


@pytest.mark.parametrize(
    ('name', 'kind'), [('a/c d.css', 'text/css'), ('100%.svg', 'image/svg+xml'), ('img/logo.PNG', 'image/png')]
)
def test_the_type_comes_from_the_name(fetcher: BundleFetcher, name: str, kind: str):
    assert fetcher.fetch(file_url(name)).content_type == kind


def test_data_urls_are_answered(fetcher: BundleFetcher):
    response = fetcher.fetch('data:text/css;base64,Y3Nz')
    assert (response.read(), response.content_type) == (b'css', 'text/css')


@pytest.mark.parametrize(
    'url',
    [
        'file:///etc/passwd',
        'FILE:/etc/passwd',
        'http://127.0.0.1/x.png',
        'https://example.org/x.css',
        'ftp://example.org/x',
        'bundle://example.org/x.png',
        'javascript:alert(1)',
        'jar:file:///x',
    ],
)
def test_everything_else_is_refused_and_noted_once(fetcher: BundleFetcher, url: str):
    for _ in range(2):
        with pytest.raises(Refused):
            fetcher.fetch(url)
    (note,) = fetcher.refusals
    assert note.startswith(url.removeprefix('bundle:'))


@pytest.mark.parametrize(
    'url', ['bundle:///inline/0.html', 'bundle:///../inline/0.html', 'bundle:///..%2Finline%2F0.html']
)
def test_only_files_are_reached_not_what_else_is_in_the_archive(fetcher: BundleFetcher, url: str):
    with pytest.raises(FileNotFoundError):
        fetcher.fetch(url)


def test_a_name_in_other_case_is_hinted_at(fetcher: BundleFetcher):
    with pytest.raises(FileNotFoundError, match=r"no file 'img/logo\.png'; there is 'img/logo\.PNG'"):
        fetcher.fetch('bundle:///img/logo.png')


def test_many_refusals_are_bounded(fetcher: BundleFetcher):
    for index in range(300):
        with pytest.raises(Refused):
            fetcher.fetch(f'http://example.org/{index}')
    assert len(fetcher.refusals) == 100
