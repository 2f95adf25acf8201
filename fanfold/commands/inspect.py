"""`fanfold inspect`: what is in a painted part or in a PDF."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

#: of more documents than these, not each one is listed
MOST_DOCUMENTS: Final = 8


@click.command()
@click.argument('file', type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option('--json', 'as_json', is_flag=True, help='Print all that is known, as JSON.')
def command(file: Path, as_json: bool) -> None:
    """Show what is in FILE, a painted part (bundle) or a PDF: pages, objects, fonts, and what they take."""
    from fanfold.inspection import inspect_file

    with tempfile.TemporaryDirectory() as scratch:
        found = inspect_file(file, Path(scratch))
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    click.echo(f'{file}: {found["kind"]}, {found["pages"]} pages, {found["bytes"]:,} bytes')
    for part in found.get('bundles', [found]):
        click.echo('\n'.join(_described(part)))


def _described(part: dict[str, Any]) -> Iterator[str]:
    documents = part.get('documents', [])
    if len(documents) > MOST_DOCUMENTS:
        bookmarks = sum(document['bookmarks'] for document in documents)
        yield f'documents {documents[0]["item"]} to {documents[-1]["item"]}, {bookmarks} bookmarks'
        documents = []
    for document in documents:
        place = f'window {document["window"]} of {document["windows"]}' if document['windows'] > 1 else 'whole'
        yield f'document {document["item"]}: {place}, {document["bookmarks"]} bookmarks'
    yield f'PDF {part["version"]}'
    for kind, found in part['objects'].items():
        yield f'  {found["count"]:>8,} objects, {found["bytes"]:>12,} bytes  {kind}'
    for font in part['fonts']:
        glyphs = f', {font["glyphs"]} glyphs' if 'glyphs' in font else ''
        yield f'  font {font["name"]}: {font["bytes"]:,} bytes{glyphs}'
    for name in part.get('attachments', ()):
        yield f'  attached: {name}'
