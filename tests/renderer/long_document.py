"""A document of chapters, and its windows rendered by a real press."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from weasyprint import HTML

from assembler.assemble import assemble
from renderer.parallel import Rendering
from renderer.prepare import Opened
from renderer.press import Press
from renderer.seams import cut
from worker.requests import Limits

CHAPTERS: Final = 4
LIMITS: Final = Limits(memory_bytes=2**31, cpu_seconds=60, wall_seconds=60)


def html(chapters: int = CHAPTERS, more: str = '') -> str:
    """Chapters of two pages each, with all that goes over page breaks: numbers, a running head, links, a contents."""
    listed = ''.join(f'<li><a href="#c{number}">to</a></li>' for number in range(chapters))
    sections = ''.join(
        f'<section id="c{number}"><h1>Chapter {number}</h1><p>{"word " * 140}<p><a href="#c0">first</a></section>'
        for number in range(chapters)
    )
    return f"""<!doctype html><html lang="en"><title>Long</title><style>
      @page {{ size: A6; margin: 15mm; @top-center {{ content: string(head) }}
              @bottom-center {{ content: counter(page) " of " counter(pages) }} }}
      h1 {{ string-set: head content() }} section {{ break-before: page }}
      li a::after {{ content: " " target-counter(attr(href), page) }}
    </style><ul>{listed}</ul>{sections}{more}"""


def open_text(given: dict[str, Any]) -> Opened:
    """The opener of the presses here."""
    return Opened(html=HTML(string=given['html']), options={})


@contextmanager
def pressed(folder: Path, text: str, limits: Limits = LIMITS, preparation: Limits = LIMITS) -> Iterator[Press]:
    press = Press(
        scratch=folder,
        opener='tests.renderer.long_document:open_text',
        given={'html': text},
        limits=limits,
        preparation=preparation,
    )
    try:
        yield press
    finally:
        press.close()


def rendering(press: Press, *, workers: int = 2, **more: Any) -> Rendering:
    """All windows there can be."""
    prepared = press.prepared()
    return Rendering(press, cut(prepared.seams, prepared.weight, windows='all', workers=2), workers=workers, **more)


def rendered(drawing: Rendering, folder: Path) -> bytes:
    output = io.BytesIO()
    for piece in assemble([window.bundle for window in drawing.render(folder)]):
        output.write(piece)
    return output.getvalue()
