"""The serial oracle: what WeasyPrint's own `HTML(…).write_pdf()` makes of a document, and what it warns of."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.oracle.fresh import in_fresh_process


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A document and how it is to be rendered. `options` are those of `write_pdf`."""

    html: bytes
    base_url: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path, **options: Any) -> Source:
        return cls(html=path.read_bytes(), base_url=path.resolve().as_uri(), options=options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    pdf: bytes
    #: each once, in the order in which they came
    warnings: tuple[str, ...]


def serial(source: Source) -> Rendered:
    """Render with WeasyPrint as it is, in a fresh process. Raises FailedThere where it cannot."""
    return in_fresh_process(_serial, source)


def _serial(source: Source) -> Rendered:
    with warnings_caught() as warnings:
        pdf = write(source)
    return Rendered(pdf=pdf, warnings=tuple(dict.fromkeys(warnings)))


def write(source: Source) -> bytes:
    from weasyprint import HTML

    html = HTML(string=source.html, base_url=source.base_url)
    pdf = html.write_pdf(**source.options)
    assert isinstance(pdf, bytes)
    return pdf


@contextmanager
def warnings_caught() -> Iterator[list[str]]:
    """What WeasyPrint warns of meanwhile."""
    messages: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    logger = logging.getLogger('weasyprint')
    listener = Listener(logging.WARNING)
    propagated = logger.propagate
    logger.addHandler(listener)
    logger.propagate = False
    try:
        yield messages
    finally:
        logger.removeHandler(listener)
        logger.propagate = propagated
