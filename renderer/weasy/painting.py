"""Painting laid-out documents into a bundle: runs of whole documents, or one window of a long one.

WeasyPrint paints as it always does; four of its functions are replaced while it does: the PDF it fills hands its
objects to the bundle, fonts and bookmarks go to the tables, and links may lead to anchors of other windows.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import pydyf
from weasyprint import pdf as weasy_pdf
from weasyprint.document import Document
from weasyprint.images import RasterImage
from weasyprint.logger import LOGGER
from weasyprint.matrix import Matrix
from weasyprint.pdf import VARIANTS

from renderer.binding import Binder, BoundPDF, Mark, Place
from renderer.objects import ReducedImage
from renderer.weasy.fonts import FontExport
from renderer.weasy.replacing import replaced

#: what is written once for a document, with its first window
ONCE: Mapping[str, Any] = {'attachments': None, 'xmp_metadata': None}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceInDocument:
    """Window `window` of `windows`, from 0. `anchors` are the names of the anchors of all windows."""

    window: int
    windows: int
    anchors: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Painted:
    """What went into the bundle of a window."""

    pages: int


def paint_window(
    document: Document, output: BinaryIO, *, place: PlaceInDocument, options: Mapping[str, Any], zoom: float = 1
) -> Painted:
    """Paint a window of a document: its pages, into a bundle of its own. One call at a time in a process."""
    volume = Volume(output, options, zoom)
    volume.add_window(document, place)
    volume.close()
    return Painted(pages=len(document.pages))


class Volume:
    """Documents bound into one bundle, as they come."""

    def __init__(self, output: BinaryIO, options: Mapping[str, Any], zoom: float) -> None:
        self._options = options
        self._zoom = zoom
        self._binder = Binder(
            output,
            version=version_of(options),
            compress=not options.get('uncompressed_pdf'),
            identifier=_identifier(options.get('pdf_identifier')),
        )
        self._fonts = FontExport(self._binder)

    def add(self, document: Document, item: int, name: str = '') -> None:
        """Add a document of several, whose names are named after its item. `name` is for one without a title."""
        options = (
            self._options if item == 0 else {**self._options, **ONCE}
        )  # what is attached to the job is attached once
        self._paint(
            document,
            Place(item=item, prefix=f'd{item}/', title=document.metadata.title or name),
            options,
            weasy_pdf.resolve_links,
        )

    def add_alone(self, document: Document) -> None:
        """Add the only document of a job."""
        self._paint(document, Place(item=0), self._options, weasy_pdf.resolve_links)

    def add_window(self, document: Document, place: PlaceInDocument) -> None:
        """Add a window of the only document of a job."""
        options = self._options if place.window == 0 else {**self._options, **ONCE}
        metadata = copy.copy(document.metadata)
        if place.window:
            metadata.attachments = []

        def resolve_links(pages: Sequence[Any]) -> Iterator[Any]:
            return _resolve_links(pages, place.anchors)

        where = Place(item=0, window=place.window, windows=place.windows)
        with replaced(document, 'metadata', metadata):
            self._paint(document, where, options, resolve_links)

    def _paint(
        self, document: Document, place: Place, options: Mapping[str, Any], resolve_links: Callable[..., Any]
    ) -> None:
        marks = _marks(document, self._zoom * 0.75)

        def make() -> BoundPDF:
            return BoundPDF(self._binder, place, marks)

        with ExitStack() as stack:
            for owner, name, value in (
                (pydyf, 'PDF', make),
                (weasy_pdf, 'build_fonts_dictionary', self._fonts.build),
                (weasy_pdf, 'add_outlines', _no_outlines),
                (RasterImage, 'get_x_object', _image),
                (weasy_pdf, 'resolve_links', resolve_links),
            ):
                stack.enter_context(replaced(owner, name, value))
            document.write_pdf(io.BytesIO(), self._zoom, **options)

    def close(self) -> None:
        self._binder.close(list(self._fonts.programs()))


def version_of(options: Mapping[str, Any]) -> str:
    """The PDF version of what is painted with these options."""
    variant = VARIANTS[options['pdf_variant']][1] if options.get('pdf_variant') else {}
    version = options.get('pdf_version') or variant.get('pdf_version') or '1.7'
    return version.decode() if isinstance(version, bytes) else str(version)


def _identifier(value: Any) -> str:
    if value in {None, True, False}:
        return ''
    return value.decode('latin-1') if isinstance(value, bytes) else str(value)


def _no_outlines(pdf: Any, bookmarks: Any, parent: Any = None) -> None:
    """In place of weasyprint.pdf.add_outlines: the outline is made of all parts' bookmarks."""


def _image(image: Any, interpolate: bool, ratio: float) -> Any:
    """In place of RasterImage.get_x_object: where the option `dpi` reduces images, the stream says by how much."""
    stream = _GET_X_OBJECT(image, interpolate, ratio)
    if image._dpi:
        name = f'{image.id}{int(interpolate)}'
        stream.reduced = ReducedImage(name=name, ratio=ratio)
        if 'SMask' in stream.extra:
            stream.extra['SMask'].reduced = ReducedImage(name=f'{name}-mask', ratio=ratio)
    return stream


def _marks(document: Document, scale: float) -> list[Mark]:
    """Bookmarks with their places in PDF, as Document.make_bookmark_tree has them."""
    marks = []
    for index, page in enumerate(document.pages):
        matrix = Matrix(a=scale, d=-scale, f=page.height * scale)
        for level, label, point, state in page.bookmarks:
            x, y = matrix.transform_point(*point)
            marks.append(Mark(level=level, label=label, page=index, x=x, y=y, closed=state == 'closed'))
    return marks


def _resolve_links(pages: Sequence[Any], elsewhere: frozenset[str]) -> Iterator[tuple[list[Any], list[Any]]]:
    """In place of weasyprint.pdf.resolve_links: anchors of other windows are there too."""
    here: set[str] = set()
    anchors = []
    for page in pages:
        anchors.append([(name, at[0], at[1]) for name, at in page.anchors.items() if name not in here])
        here.update(page.anchors)
    for page, found in zip(pages, anchors, strict=True):
        links = []
        for link in page.links:
            kind, name = link[:2]
            if kind == 'internal' and name not in here and name not in elsewhere:
                LOGGER.error('No anchor #%s for internal URI reference', name)
            else:
                links.append(link)
        yield links, found


_GET_X_OBJECT: Final = RasterImage.get_x_object
