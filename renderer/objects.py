"""The objects of one document on their way into a bundle: each one that something leads to, once.

What other documents or parts may have too (images, profiles, font programs, attached files) is told by its digest, and
written once; so are resources that are the same.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pydyf

from assembler.tables import Template, object_slot
from renderer.encoding import Encoder

if TYPE_CHECKING:
    from renderer.binding import Binder, BoundPDF

#: what tells streams that other parts may have too: images and soft masks, profiles, font programs, attached files
SHARED_SUBTYPES: Final = frozenset({'/Image', '/OpenType'})
SHARED_KEYS: Final = frozenset({'N', 'Length1'})
STAMPS: Final = frozenset({'CreationDate', 'ModDate'})
SHARED_TYPES: Final = frozenset({'/EmbeddedFile', '/Filespec'})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducedImage:
    """What an image stream shows, as its attribute `reduced`; `ratio` is that of its pixels to the image's own."""

    name: str
    ratio: float


class SharedFont(pydyf.Object):  # type: ignore[misc]  # pydyf is not typed
    """Stands in a document for a font dictionary that the assembler makes. `number` is that in the document."""

    def __init__(self, bundled: int) -> None:
        super().__init__()
        self.bundled = bundled


class DocumentObjects:
    """The objects of a document; `numbers` are those in the bundle, by those in the document."""

    def __init__(self, binder: Binder, pdf: BoundPDF, first_key: int) -> None:
        self._binder = binder
        self._pdf = pdf
        self.numbers: dict[int, int] = {pdf.pages.number: binder.pages_node}
        self._queue: deque[tuple[int, Any]] = deque()
        contents = {number_in(pdf.objects[page]['Contents']) for page in pdf.pages['Kids'][::3]}
        self._encoder = Encoder(
            self.number_of, prefix=pdf.place.prefix, first_key=first_key, contents=frozenset(contents)
        )
        self.encode = self._encoder.encode
        self.key = self._encoder.key

    def slot(self, number: int) -> int:
        return object_slot(self.number_of(number))

    def number_of(self, number: int) -> int:
        """The number in the bundle of an object of the document, which is written soon if it is not yet."""
        known = self.numbers.get(number)
        if known is None:
            known = self.numbers[number] = self._place(self._pdf.objects[number])
        return known

    def _place(self, object_: Any) -> int:
        if isinstance(object_, SharedFont):
            return object_.bundled
        if self._pdf.place.windows > 1 and isinstance(reduced := getattr(object_, 'reduced', None), ReducedImage):
            return self._place_reduced(object_, reduced)
        if isinstance(object_, pydyf.Stream) and _is_shared(object_.extra):
            return self._place_shared_stream(object_)
        if isinstance(object_, dict) and object_.get('Type') in SHARED_TYPES:
            source = self.encode(object_)
            return self._place_shared(source, None, source)
        if isinstance(object_, dict) and 'Type' not in object_ and 'FT' not in object_:
            return self._place_resource(object_)
        number = self._binder.reserve()
        self._queue.append((number, object_))
        return number

    def _place_reduced(self, image: Any, reduced: ReducedImage) -> int:
        """Other windows may need more pixels of the image: the assembler takes the one with most."""
        number = self._binder.reserve()
        self._binder.images.append((number, reduced.name, reduced.ratio))
        self._queue.append((number, image))
        return number

    def _place_shared_stream(self, stream: Any) -> int:
        dictionary, data = self._stream(stream)
        same = dictionary
        if stream.extra.get('Type') == '/EmbeddedFile':  # each window stamps it with the time
            params = {key: value for key, value in stream.extra['Params'].items() if key not in STAMPS}
            same = self.encode({**stream.extra, 'Params': params})
        return self._place_shared(dictionary, data, same)

    def _place_shared(self, source: Template, data: bytes | None, same: Template) -> int:
        """The number of an object that may be there already: as `same` says, and what it leads to is the same."""
        digest = hashlib.sha256(same.text)
        for slot in same.slots:
            below = self._binder.digests.get(slot // 2)
            digest.update(b'%d' % slot if below is None else below)
        digest.update(data or b'')
        known = self._binder.by_digest.get(digest.digest())
        if known is not None:
            return known
        number = self._binder.reserve()
        self._binder.by_digest[digest.digest()] = number
        if all(slot // 2 in self._binder.digests for slot in source.slots):
            self._binder.digests[number] = digest.digest()
        if data is None:
            self._binder.write_object(number, source)
        else:
            self._binder.write_stream(number, source, data)
        return number

    def _place_resource(self, resource: Any) -> int:
        source = self.encode(resource)
        key = source.text, tuple(source.slots)
        number = self._binder.by_source.get(key)
        if number is None:
            number = self._binder.by_source[key] = self._binder.reserve()
            self._binder.write_object(number, source)
        return number

    def _stream(self, stream: Any) -> tuple[Template, bytes]:
        """Dictionary and data, as pydyf makes them."""
        plain: bytes = pydyf.Stream(stream.stream, {}, stream.compress).data
        data = plain[plain.index(b'stream\n') + 7 : -len(b'\nendstream')]
        extra = dict(stream.extra)
        if stream.compress:
            extra['Filter'] = '/FlateDecode'
        extra['Length'] = len(data)
        return self.encode(extra), data

    def write_queued(self) -> None:
        while self._queue:
            number, object_ = self._queue.popleft()
            if isinstance(object_, pydyf.Stream):
                self._binder.write_stream(number, *self._stream(object_))
            else:
                structural = isinstance(object_, dict) and object_.get('Type') in {'/StructElem', '/OBJR'}
                self._binder.write_object(number, self.encode(object_), structural=structural)


def _is_shared(extra: Mapping[str, Any]) -> bool:
    return (
        extra.get('Subtype') in SHARED_SUBTYPES
        or extra.get('Type') in SHARED_TYPES
        or not SHARED_KEYS.isdisjoint(extra)
    )


def number_in(reference: bytes) -> int:
    """The number that a reference gives."""
    return int(reference.split()[0])
