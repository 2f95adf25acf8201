"""The tables at the end of a bundle: what the assembler must know of a part without looking into its objects.

Objects of a part are numbered from 1. Wherever their source holds a number that only the assembler knows, it
holds a *slot*, written `%d`: slot 2n stands for the number that object n gets, slot 2k + 1 for the key that key k
into the structure parent tree gets. Tables are JSON; bytes in them are written as Latin-1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from assembler.fontuse import FontUse

#: tables whose values JSON has as they are
PLAIN: Final = (
    'version', 'compress', 'identifier', 'objects', 'pages', 'pages_node', 'pages_root', 'structure_root',
    'parent_keys', 'parent_leaf', 'once', 'fields', 'field_fonts', 'associated', 'shared', 'images',
)  # fmt: skip


def object_slot(number: int) -> int:
    return 2 * number


def key_slot(key: int) -> int:
    return 2 * key + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """PDF source with its slots, in the order of their places."""

    text: bytes
    slots: Sequence[int] = ()

    def fill(self, numbers: Sequence[int]) -> bytes:
        return self.text % tuple([numbers[slot] for slot in self.slots])

    def to_json(self) -> list[Any]:
        return [self.text.decode('latin-1'), list(self.slots)]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> Template:
        return cls(text=value[0].encode('latin-1'), slots=value[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Bookmark:
    """`level` as in CSS, 0 for a document; `page` is a slot, 0 if it leads nowhere.

    `place` is where on the page, as PDF source: `/XYZ x y 0`.
    """

    level: int
    label: str
    page: int
    place: str
    closed: bool

    def to_json(self) -> list[Any]:
        return [self.level, self.label, self.page, self.place, self.closed]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> Bookmark:
        level, label, page, place, closed = value
        return cls(level=level, label=label, page=page, place=place, closed=closed)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledDocument:
    """A document of the bundle, or the window of one. `item` is its number in the job."""

    item: int
    window: int = 0
    windows: int = 1
    #: the document itself, for outlines that name documents; in its first window
    heading: Bookmark | None = None
    bookmarks: Sequence[Bookmark] = ()
    #: slot of the structure element /Document, written by the assembler; 0: the document is not tagged
    element: int = 0
    #: its language, a string as PDF source
    language: str = ''
    #: URI of its namespace (PDF 2.0)
    namespace: str = ''
    #: slots of the structure elements below it
    kids: Sequence[int] = ()

    def to_json(self) -> list[Any]:
        heading = None if self.heading is None else self.heading.to_json()
        marks = [mark.to_json() for mark in self.bookmarks]
        element = [self.element, self.language, self.namespace, list(self.kids)]
        return [self.item, self.window, self.windows, heading, marks, *element]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> BundledDocument:
        item, window, windows, heading, marks, element, language, namespace, kids = value
        return cls(
            item=item,
            window=window,
            windows=windows,
            heading=None if heading is None else Bookmark.from_json(heading),
            bookmarks=[Bookmark.from_json(mark) for mark in marks],
            element=element,
            language=language,
            namespace=namespace,
            kids=kids,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledFont:
    """A font that the assembler embeds. `slot` is that of the font dictionary; `program` an index of programs."""

    slot: int
    program: int
    use: FontUse

    def to_json(self) -> list[Any]:
        return [self.slot, self.program, self.use.to_json()]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> BundledFont:
        return cls(slot=value[0], program=value[1], use=FontUse.from_json(value[2]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A font program in the bundle: its place in the file and the glyphs it was reduced to (none: it is whole).

    `identity` tells apart programs that cannot be united: another file, another face or axis.
    """

    identity: str
    offset: int
    length: int
    glyphs: Sequence[int]

    def to_json(self) -> list[Any]:
        return [self.identity, self.offset, self.length, list(self.glyphs)]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> Program:
        return cls(identity=value[0], offset=value[1], length=value[2], glyphs=value[3])


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """All that a bundle says of itself. A slot of 0 says that there is none."""

    version: str
    compress: bool
    identifier: str = ''
    objects: int
    pages: int
    #: slots of the part's node in the page tree, and of what the assembler writes: the trees' roots
    pages_node: int
    pages_root: int
    structure_root: int = 0
    #: keys into the structure parent tree, and the slot of the leaf that holds them
    parent_keys: int = 0
    parent_leaf: int = 0
    documents: Sequence[BundledDocument] = ()
    #: names, encoded, with where they lead
    destinations: Sequence[tuple[bytes, Template]] = ()
    fonts: Sequence[BundledFont] = ()
    programs: Sequence[Program] = ()
    #: what the file has once: entries of the catalog and the information dictionary; None: it has none
    catalog: Mapping[str, Template] = field(default_factory=dict)
    info: Mapping[str, Template] | None = None
    #: numbers of objects that only those lead to
    once: Sequence[int] = ()
    #: slots of form fields, and of fonts their appearance names
    fields: Sequence[int] = ()
    field_fonts: Mapping[str, int] = field(default_factory=dict)
    #: name and other name (if the first is taken), encoded, with the slot of the file specification
    attachments: Sequence[tuple[bytes, bytes, int]] = ()
    associated: Sequence[int] = ()
    #: objects that other parts may have too: number and digest
    shared: Sequence[tuple[int, str]] = ()
    #: images reduced to what the document needs: number, name and ratio
    images: Sequence[tuple[int, str, float]] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in PLAIN},
            'documents': _listed(self.documents),
            'fonts': _listed(self.fonts),
            'programs': _listed(self.programs),
            'destinations': [[name.decode('latin-1'), place.to_json()] for name, place in self.destinations],
            'attachments': [
                [name.decode('latin-1'), other.decode('latin-1'), slot] for name, other, slot in self.attachments
            ],
            'catalog': {key: value.to_json() for key, value in self.catalog.items()},
            'info': None if self.info is None else {key: value.to_json() for key, value in self.info.items()},
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Tables:
        info = value['info']
        return cls(
            **{name: value[name] for name in PLAIN},
            documents=[BundledDocument.from_json(item) for item in value['documents']],
            fonts=[BundledFont.from_json(item) for item in value['fonts']],
            programs=[Program.from_json(item) for item in value['programs']],
            destinations=[(name.encode('latin-1'), Template.from_json(at)) for name, at in value['destinations']],
            attachments=[
                (name.encode('latin-1'), other.encode('latin-1'), slot) for name, other, slot in value['attachments']
            ],
            catalog={key: Template.from_json(item) for key, item in value['catalog'].items()},
            info=None if info is None else {key: Template.from_json(item) for key, item in info.items()},
        )


def _listed(items: Iterable[BundledDocument | BundledFont | Program]) -> list[Any]:
    return [item.to_json() for item in items]
