"""`fanfold assemble`: painted parts and existing PDFs to one PDF, as the assembler does it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import click


@click.command()
@click.argument('parts', metavar='PART...', nargs=-1, required=True,
                type=click.Path(exists=True, dir_okay=False, path_type=Path))  # fmt: skip
@click.option(
    '--output', '-o', required=True, type=click.Path(dir_okay=False, path_type=Path), help='The PDF to write.'
)
@click.option('--document-bookmarks', is_flag=True, help='Give each of several documents a bookmark above its own.')
def command(parts: tuple[Path, ...], output: Path, document_bookmarks: bool) -> None:
    """Put painted parts (bundles) and PDFs together to one PDF, in the order given.

    Of a PDF come along pages, outline, links, form fields and attached files; what does not is said. The file
    appears when it is whole and has been read back.
    """
    from assembler.assemble import assemble
    from assembler.audit import audit
    from fanfold.appearing import appearing_whole

    with tempfile.TemporaryDirectory() as scratch:
        bundles = list(_bundles(parts, Path(scratch)))
        with appearing_whole(output) as file:
            for piece in assemble(bundles, document_bookmarks=document_bookmarks):
                file.write(piece)
            file.flush()
            pages = audit(Path(file.name)).pages
    click.echo(f'{output}: {pages} pages')


def _bundles(parts: tuple[Path, ...], scratch: Path) -> Iterator[Path]:
    """The parts as bundles: PDFs are imported, parts of several bundles are taken apart in `scratch`."""
    from assembler.bundle import Bundle
    from assembler.importing import import_pdf
    from assembler.sequence import split

    version, compress = '1.7', True
    for number, part in enumerate(parts):
        folder = scratch / str(number)
        folder.mkdir()
        with part.open('rb') as file:
            is_pdf = file.read(5) == b'%PDF-'
        if is_pdf:
            path, name = folder / part.name, str(part)
            with part.open('rb') as source, path.open('wb') as out:
                made = import_pdf(
                    source, out, name=name, item=number, prefix=f'p{number}/', version=version, compress=compress
                )
            if made.left_out:
                click.echo(f'{part}: left out are {", ".join(made.left_out)}', err=True)
            yield path
            continue
        link = folder / part.name
        link.symlink_to(part.resolve())
        for path in split(link):
            with Bundle.open(path) as bundle:
                version, compress = bundle.tables.version, bundle.tables.compress
            yield path
