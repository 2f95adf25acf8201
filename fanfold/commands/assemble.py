"""`fanfold assemble`: painted parts to one PDF, as the assembler does it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click


@click.command()
@click.argument('parts', metavar='PART...', nargs=-1, required=True,
                type=click.Path(exists=True, dir_okay=False, path_type=Path))  # fmt: skip
@click.option(
    '--output', '-o', required=True, type=click.Path(dir_okay=False, path_type=Path), help='The PDF to write.'
)
def command(parts: tuple[Path, ...], output: Path) -> None:
    """Put painted parts (bundles) together to one PDF, in the order given.

    The file appears when it is whole and has been read back.
    """
    from assembler.assemble import assemble
    from assembler.audit import audit
    from assembler.sequence import split
    from fanfold.appearing import appearing_whole

    with tempfile.TemporaryDirectory() as scratch:
        bundles = []
        for number, part in enumerate(parts):
            link = Path(scratch, str(number), part.name)
            link.parent.mkdir()
            link.symlink_to(part.resolve())
            bundles += split(link)
        with appearing_whole(output) as file:
            for piece in assemble(bundles):
                file.write(piece)
            file.flush()
            pages = audit(Path(file.name)).pages
    click.echo(f'{output}: {pages} pages')
