"""Documents, as WeasyPrint writes them and as painting bundles them."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pikepdf
import pypdfium2
from weasyprint import HTML, Attachment
from weasyprint.document import Document

from assembler.assemble import assemble
from renderer.weasy import Volume

STYLE = """
  @page { size: A6; margin: 1cm; @bottom-center { content: counter(page) } }
  body { font-family: "DejaVu Sans"; font-size: 9pt }
  section { break-after: page }
  h2 { bookmark-state: closed }
"""


def document(number: int, *, sections: int = 3, extra: str = '', head: str = '') -> str:
    """Nested headings, links forth and back, one page a section; every page says whose it is."""
    body = ''.join(
        f'<section><h1 id="s{section}">Document {number} section {section}</h1>'
        f'<h2>Folded {section}</h2><h3>Inner {section} (see 5 0 R) \\ ✓</h3>'
        f'<p><a href="#s{(section + 1) % sections}">next</a> <a href="http://example.com/{number}">out</a>'
        f'<p>(see 5 0 R) \\ and {number / 7:.4f}</section>'
        for section in range(sections)
    )
    return (
        f'<html lang="en"><title>Title {number}</title><meta name="author" content="Author {number}">'
        f'<style>{STYLE}</style>{head}<body>{body}{extra}'
    )


def write(path: Path, html: str, *, attachments: Sequence[Attachment] = (), **options: Any) -> Path:
    path.write_bytes(render(html, attachments=attachments, **options) if attachments else rendered(html, **options))
    return path


def bundle(path: Path, html: str, *, item: int = 0, **options: Any) -> Path:
    """Paint a document of several, named after its item."""
    with path.open('wb') as file:
        volume = Volume(file, options, 1)
        volume.add(laid_out(html, **options), item)
        volume.close()
    return path


def laid_out(html: str, **options: Any) -> Document:
    with quiet():
        return HTML(string=html).render(**options)


@contextmanager
def quiet() -> Iterator[None]:
    """Without what WeasyPrint leaves open."""
    with warnings.catch_warnings():
        warnings.filterwarnings('ignore', r'unclosed file .*sRGB2014\.icc', ResourceWarning)
        yield
        gc.collect()


def joined(paths: Sequence[Path], out: Path, **how: Any) -> Path:
    """Assemble bundles."""
    out.write_bytes(b''.join(assemble(paths, **how)))
    return out


def render(html: str, **options: Any) -> bytes:
    with quiet():
        pdf: bytes = HTML(string=html).write_pdf(**options)
    return pdf


#: the same documents come in many tests
rendered = cache(render)


def attachment(name: str, content: bytes) -> Attachment:
    return Attachment(string=content, name=name)


def texts(path: Path | bytes) -> list[str]:
    """The text of each page, as pdfium reads it."""
    with pypdfium2.PdfDocument(path) as pdf:
        return [page.get_textpage().get_text_range() for page in pdf]


def pixels(path: Path | bytes) -> list[bytes]:
    """Each page as pdfium draws it."""
    with pypdfium2.PdfDocument(path) as pdf:
        return [bytes(page.render(scale=0.7).buffer) for page in pdf]


def outline(pdf: pikepdf.Pdf) -> list[tuple[str, bool, int, list[object]]]:
    """Title, whether folded, index of the page, entries below."""

    def read(item: pikepdf.Object | None) -> list[tuple[str, bool, int, list[object]]]:
        entries = []
        while item is not None:
            page = pdf.pages.index(pikepdf.Page(item.Dest[0]))
            entries.append((str(item.Title), int(item.get('/Count', 0)) < 0, page, read(item.get('/First'))))
            item = item.get('/Next')
        return entries

    return read(pdf.Root.Outlines.First) if '/Outlines' in pdf.Root else []


def destinations(pdf: pikepdf.Pdf) -> dict[str, int]:
    """Index of the page by name, looked up as readers do it."""
    tree = pikepdf.NameTree(pdf.Root.Names.Dests)
    return {str(name): pdf.pages.index(pikepdf.Page(target[0])) for name, target in tree.items()}
