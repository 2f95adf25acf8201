"""Assembly: bundles concatenated, against pypdf and pikepdf merging the same pages; sizes against serial WeasyPrint.

    python -m benchmarks.assembly [--windows 20] [--times 10] [--records 1000]

A book is laid out once and painted in windows, plain and as tagged PDF/A: into bundles, and into PDFs for the others.
So many times over (569 pages each) they are put together, by each in a process of its own: CPU seconds and memory are
those above what the process has when it has loaded its modules. Ours has the witness in it.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from PIL import Image
from weasyprint import HTML
from weasyprint.document import Document

from benchmarks.invoices import Runs, make_case
from renderer.runs import plan_runs
from renderer.weasy import PlaceInDocument, paint_window

BOOK = Path(__file__).resolve().parent.parent.parent / 'shared/corpus/book-100.html'
KINDS: dict[str, dict[str, Any]] = {'plain': {}, 'tagged PDF/A': {'pdf_variant': 'pdf/a-3a'}}
HOWS = ('ours', 'pypdf', 'pikepdf')


def measured(how: str, paths: list[Path], out: Path, pages: int) -> dict[str, float]:
    """Put files together in a process of its own."""
    request = json.dumps({'how': how, 'paths': [str(path) for path in paths], 'out': str(out), 'pages': pages})
    command = [sys.executable, '-m', 'benchmarks.assembly', '--put-together', request]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def put_together(request: dict[str, Any]) -> dict[str, float]:
    """What runs in that process: CPU seconds and bytes above idle, and the size of the file."""
    work = _loaded(request['how'])
    paths, out = [Path(path) for path in request['paths']], Path(request['out'])
    idle, started = _peak(), time.process_time()
    work(paths, out, request['pages'])
    return {'cpu': time.process_time() - started, 'memory': _peak() - idle, 'size': out.stat().st_size}


def _loaded(how: str) -> Callable[[list[Path], Path, int], None]:
    if how == 'ours':
        from assembler.assemble import assemble
        from assembler.audit import audit

        def ours(paths: list[Path], out: Path, pages: int) -> None:
            with out.open('wb') as file:
                for piece in assemble(paths):
                    file.write(piece)
            audit(out, pages=pages)

        return ours
    if how == 'pypdf':
        import pypdf

        def append(paths: list[Path], out: Path, _: int) -> None:
            writer = pypdf.PdfWriter()
            for path in paths:
                writer.append(path)
            writer.write(out)

        return append
    import pikepdf

    def add_pages(paths: list[Path], out: Path, _: int) -> None:
        with pikepdf.new() as merged:
            for path in paths:
                with pikepdf.open(path) as part:
                    merged.pages.extend(part.pages)
            merged.save(out, object_stream_mode=pikepdf.ObjectStreamMode.generate)

    return add_pages


def _peak() -> int:
    """The most memory this process has had, in bytes; that of the process it was forked from does not count."""
    for line in Path('/proc/self/status').read_text().splitlines():
        if line.startswith('VmHWM'):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def windows(document: Document, count: int, folder: Path, **options: Any) -> Iterator[tuple[Path, Path]]:
    """Paint a document in windows: a bundle and a PDF of each."""
    anchors = frozenset(name for page in document.pages for name in page.anchors)
    cuts = [round(index * len(document.pages) / count) for index in range(count + 1)]
    for window, (first, end) in enumerate(pairwise(cuts)):
        bundle, pdf = folder / f'{window}.bundle', folder / f'{window}.pdf'
        place = PlaceInDocument(window=window, windows=count, anchors=anchors)
        with bundle.open('wb') as file:
            paint_window(document.copy(document.pages[first:end]), file, place=place, options=options)
        document.copy(document.pages[first:end]).write_pdf(pdf, **options)
        yield bundle, pdf


def row(*cells: object) -> None:
    print('|', ' | '.join(str(cell) for cell in cells), '|')


def book(folder: Path, count: int, times: int) -> None:
    """The book in windows: what it takes to put it together, and its size."""
    row('', 'CPU s per 1,000 pages', 'ratio', 'memory', 'size')
    row(*['---'] * 5)
    sizes = []
    for kind, options in KINDS.items():
        document = HTML(BOOK).render(**options)
        place = folder / kind.split()[0]
        place.mkdir()
        serial = place / 'serial.pdf'
        document.write_pdf(serial, **options)
        bundles, pdfs = zip(*windows(document, count, place, **options), strict=True)
        pages = len(document.pages) * times
        found = {
            how: measured(how, list(bundles if how == 'ours' else pdfs) * times, place / 'out.pdf', pages)
            for how in HOWS
        }
        for how, result in found.items():
            per_thousand = result['cpu'] / pages * 1_000
            ratio = result['cpu'] / found['ours']['cpu']
            memory, size = result['memory'] / 2**20, result['size'] / 1e6
            row(f'{kind}, {how}', f'{per_thousand:.2f}', f'{ratio:.1f}', f'{memory:.0f} MiB', f'{size:.1f} MB')
        one = measured('ours', list(bundles), place / 'one.pdf', len(document.pages))
        sizes.append((f'book, {kind}, {count} windows', one['size'], serial.stat().st_size))
    print()
    row('', 'ours', 'serial', 'ratio')
    row(*['---'] * 4)
    for name, ours, theirs in sizes:
        row(name, f'{ours:,.0f}', f'{theirs:,}', f'{ours / theirs:.3f}')


def shared_image(folder: Path, count: int) -> None:
    """Windows that show the same picture."""
    picture = folder / 'picture.png'
    Image.effect_noise((600, 400), 90).convert('RGB').save(picture)
    page = f'<p style="break-after: page"><img src="{picture.as_uri()}" width=300>'
    document = HTML(string=page * count).render()
    bundles = [bundle for bundle, _ in windows(document, count, folder)]
    ours = measured('ours', bundles, folder / 'out.pdf', len(document.pages))
    theirs = len(document.write_pdf())
    row(f'{count} windows that share an image', f'{ours["size"]:,.0f}', f'{theirs:,}', f'{ours["size"] / theirs:.3f}')


def invoices(folder: Path, count: int) -> None:
    """One-page documents in runs, against WeasyPrint writing the same pages as one document."""
    case = make_case(folder, count)
    runs = Runs(case)
    for part in plan_runs(case.spec):
        runs.work(part)
    ours = measured('ours', runs.paths, folder / 'out.pdf', count)
    documents = [HTML(string=html, base_url=f'{case.folder}/').render() for html in case.filled()]
    theirs = len(documents[0].copy([page for document in documents for page in document.pages]).write_pdf())
    row(f'{count} invoices', f'{ours["size"]:,.0f}', f'{theirs:,}', f'{ours["size"] / theirs:.3f}')
    print(f'\n{count} invoices in {len(runs.paths)} parts: {ours["cpu"]:.2f} CPU s, the witness in it')


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or '').splitlines()[0])
    parser.add_argument('--windows', type=int, default=20)
    parser.add_argument('--times', type=int, default=10)
    parser.add_argument('--records', type=int, default=1_000)
    parser.add_argument('--put-together', help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.put_together:
        print(json.dumps(put_together(json.loads(options.put_together))))
        return
    if not BOOK.is_file():
        raise SystemExit(f'the book is not there: {BOOK}')
    logging.getLogger('weasyprint').setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as name:
        for step, work in enumerate(
            (
                lambda place: book(place, options.windows, options.times),
                lambda place: shared_image(place, options.windows),
                lambda place: invoices(place, options.records),
            )
        ):
            place = Path(name, str(step))
            place.mkdir()
            work(place)


if __name__ == '__main__':
    main()
