"""A PDF as plain values: all that a reader of the document can come by, nothing of how the file is laid out.

Places (of links, destinations, bookmarks) are (page index, x, y). What legitimately differs between two files of one
document is left out: object numbers, names of resources, the file identifier, times of attachments, random ids in XMP.
Read with pikepdf and pdfium, neither of which wrote the file.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator
from typing import Any, Final

import pikepdf
import pypdfium2

BOXES: Final = ('/MediaBox', '/CropBox', '/TrimBox', '/BleedBox', '/ArtBox')
#: uses of resources that WeasyPrint numbers over the whole document, and of images, named after where they came from
RESOURCE: Final = re.compile(rb'/([xsp]\d+|i[0-9a-f]{32}[01])\s+(gs|Do|sh|scn|SCN)\b')
RESOURCES: Final = {b'gs': '/ExtGState', b'Do': '/XObject', b'sh': '/Shading', b'scn': '/Pattern', b'SCN': '/Pattern'}
#: a field without a name is named after the object number of its page
NAMELESS_FIELD: Final = re.compile(r'^(?:unknown-)\d+(-\d+)$')
RANDOM_XMP: Final = re.compile(rb'(?:uuid:|xmp\.did:)[0-9a-f-]{36}')
SUBSET: Final = re.compile(r'^/[A-Z]{6}\+')
FIELD_KEYS: Final = ('/FT', '/TU', '/Ff', '/V', '/DV', '/AS', '/Opt', '/MaxLen')
NOT_DRAWN: Final = frozenset({'/Length', '/Resources', '/StructParents', '/StructParent'})
ELEMENT_KEYS: Final = ('/Alt', '/ActualText', '/Lang', '/T', '/ID', '/A')

Place = tuple[int | None, float, float]


def read(pdf: bytes) -> dict[str, Any]:
    """What a PDF says, by kind: `pages` first, a dictionary each."""
    with pikepdf.open(io.BytesIO(pdf)) as raw:
        return _Reader(raw, pdf).read()


def pixels(pdf: bytes, index: int, *, scale: float = 1) -> Any:
    """One page as a Pillow image."""
    with pypdfium2.PdfDocument(pdf) as document:
        page = document[index]
        image = page.render(scale=scale).to_pil()
        page.close()
    return image


class _Reader:
    def __init__(self, raw: pikepdf.Pdf, pdf: bytes) -> None:
        self._raw = raw
        self._pdf = pdf
        self._root = raw.Root
        self._indexes = {page.objgen: index for index, page in enumerate(raw.pages)}
        names = self._root.get('/Names', {})
        self._destinations = {
            bytes(name): self._place(value) for name, value in _tree(names.get('/Dests'), '/Names')
        }  # fmt: skip
        self._ids: dict[str, int] = {}
        self._digests: dict[tuple[int, int], bytes] = {}
        self._attachments = list(_tree(names.get('/EmbeddedFiles'), '/Names'))

    def read(self) -> dict[str, Any]:
        return {
            'pages': [{**said, **seen} for said, seen in zip(self._said(), self._seen(), strict=True)],
            'outline': list(self._outline(self._root.get('/Outlines'), 0)),
            'destinations': self._destinations,
            'order of destinations': list(self._destinations) == sorted(self._destinations),
            'information': {key: _plain(value) for key, value in self._raw.docinfo.items()},
            'language': _plain(self._root.get('/Lang')),
            'version': self._raw.pdf_version,
            'XMP': self._xmp(),
            'output intents': [_intent(intent) for intent in self._root.get('/OutputIntents', [])],
            # WeasyPrint does not sort their name tree, as it should
            'attachments': sorted((_attachment(spec) for _, spec in self._attachments), key=repr),
            'associated files': sorted({repr(_attachment(spec)) for spec in self._root.get('/AF', [])}),  # each once
            'form': self._form(),
            'fonts': sorted({name for page in self._raw.pages for name in _fonts(page)}),
            'marked': _plain(self._root.get('/MarkInfo')),
            'viewer preferences': _plain(self._root.get('/ViewerPreferences')),
            'page labels': _plain(self._root.get('/PageLabels')),
            'structure': list(self._structure()),
            'marked content': list(self._marked()),
        }

    def _said(self) -> Iterator[dict[str, Any]]:
        """Each page as it is written."""
        for page in self._raw.pages:
            annotations = list(page.get('/Annots', []))
            yield {
                'boxes': {box: _numbers(page[box]) for box in BOXES if box in page},
                'content': self._content(page.obj),
                'links': [self._link(item) for item in annotations if item.Subtype == '/Link'],
                'fields': [self._field(item) for item in annotations if item.Subtype == '/Widget'],
                'other annotations': [
                    (str(item.Subtype), _numbers(item.Rect), _attachment(item.get('/FS')))
                    for item in annotations
                    if item.Subtype not in ('/Link', '/Widget')
                ],
                'tab order': str(page.get('/Tabs', '')),
            }

    def _seen(self) -> Iterator[dict[str, Any]]:
        """Each page as a viewer shows it."""
        with pypdfium2.PdfDocument(self._pdf) as document:
            for page in document:
                text = page.get_textpage()
                image = page.render(scale=1)
                digest = hashlib.sha256(bytes(image.buffer)).hexdigest()[:16]
                yield {'text': text.get_text_range(), 'pixels': (image.width, image.height, digest)}
                text.close()
                page.close()

    def _content(self, holder: Any) -> bytes:
        """A content stream; resources are named in the order in which it uses them and told at the end."""
        order: dict[tuple[bytes, bytes], int] = {}
        content = RESOURCE.sub(
            lambda use: b'/resource%d %b' % (order.setdefault((use[1], use[2]), len(order)), use[2]), _written(holder)
        )
        for (name, operator), number in order.items():
            resource = holder.Resources[RESOURCES[operator]]['/' + name.decode()]
            content += b'\nresource%d: %b' % (number, self._resource(resource))
        return content

    def _resource(self, resource: Any) -> bytes:
        """A digest of what a resource draws or sets."""
        known = self._digests.get(resource.objgen) if resource.is_indirect else None
        if known is None:
            is_image = resource.get('/Subtype') == '/Image'
            told = [repr(sorted((key, self._said_of(resource[key])) for key in set(resource) - NOT_DRAWN)).encode()]
            if isinstance(resource, pikepdf.Stream):
                told.append(resource.read_raw_bytes() if is_image else self._content(resource))
            known = self._digests[resource.objgen] = hashlib.sha256(b''.join(told)).hexdigest()[:16].encode()
        return known

    def _said_of(self, value: Any) -> Any:
        """A value in a resource: a mask by what it draws."""
        if isinstance(value, pikepdf.Dictionary) and '/G' in value:
            return self._resource(value.G)
        return self._resource(value) if isinstance(value, pikepdf.Stream) else _plain(value)

    def _place(self, value: Any) -> Place:
        if isinstance(value, pikepdf.Dictionary):
            value = value.D
        page, x, y = value[0], value[2], value[3]
        return self._indexes.get(page.objgen), round(float(x), 2), round(float(y), 2)

    def _target(self, holder: Any) -> Any:
        """Where a link or bookmark leads: a place, an address, or the name of a destination that there is not."""
        action = holder.get('/A', {})
        target = holder.get('/Dest', action.get('/D'))
        if target is None:
            return str(action.get('/URI', action.get('/S', '')))
        if isinstance(target, pikepdf.Array):
            return self._place(target)
        return self._destinations.get(bytes(target), f'dead: {bytes(target)!r}')

    def _link(self, item: Any) -> Any:
        return _numbers(item.Rect), self._target(item), _plain(item.get('/Contents'))

    def _field(self, item: Any) -> dict[str, Any]:
        looks = sorted(str(key) for key in item.get('/AP', {}).get('/N', {})) if '/FT' in item else []
        return {
            'rectangle': _numbers(item.Rect),
            'name': _field_name(item),
            'parent': _field_name(item.Parent) if '/Parent' in item else None,
            'page': self._indexes.get(item.P.objgen) if '/P' in item else None,
            'looks': looks if item.get('/FT') == '/Btn' else [],
            **{key: _plain(item[key]) for key in FIELD_KEYS if key in item},
        }

    def _form(self) -> Any:
        form = self._root.get('/AcroForm')
        if form is None:
            return None
        # WeasyPrint lists radio buttons as fields too, beside the group that they belong to
        fields = [field for field in form.Fields if '/Parent' not in field]
        fields = [(_field_name(field), [_field_name(kid) for kid in field.get('/Kids', [])]) for field in fields]
        return {'fields': fields, 'appearances': _plain(form.get('/NeedAppearances'))}

    def _outline(self, parent: Any, level: int) -> Iterator[tuple[Any, ...]]:
        item = parent.get('/First') if parent is not None else None
        while item is not None:
            state = 'closed' if int(item.get('/Count', 0)) < 0 else 'open'
            yield level, str(item.Title), self._target(item), state, int(item.get('/Count', 0))
            yield from self._outline(item, level + 1)
            item = item.get('/Next')

    def _xmp(self) -> Any:
        if '/Metadata' not in self._root:
            return None
        return RANDOM_XMP.sub(b'random', self._root.Metadata.read_bytes()).decode('utf-8', 'replace')

    def _structure(self) -> Iterator[tuple[Any, ...]]:
        """(depth, tag or kind of content, what it says) of every node, in order."""
        root = self._root.get('/StructTreeRoot')
        stack = [(0, root, None)] if root is not None else []
        while stack:
            depth, node, page = stack.pop()
            if not isinstance(node, pikepdf.Dictionary):
                yield depth, 'content', page, int(node)
                continue
            page = self._indexes.get(node.Pg.objgen) if '/Pg' in node else page
            if node.get('/Type') == '/MCR':
                yield depth, 'content', page, int(node.MCID)
                continue
            if node.get('/Type') == '/OBJR':
                yield depth, 'object', page, str(node.Obj.Subtype), _numbers(node.Obj.Rect)
                continue
            yield depth, str(node.get('/S', 'root')), page, self._element(node)
            kids = node.get('/K', [])
            kids = list(kids) if isinstance(kids, pikepdf.Array) else [kids]
            stack.extend((depth + 1, kid, page) for kid in reversed(kids))

    def _element(self, node: Any) -> dict[str, Any]:
        """What an element says; ids, which WeasyPrint makes of object numbers, by the order in which they come."""
        said = {key: _plain(node[key]) for key in ELEMENT_KEYS if key in node}
        if '/ID' in said:
            said['/ID'] = self._ids.setdefault(said['/ID'], len(self._ids))
        if '/Headers' in said.get('/A', {}):
            said['/A']['/Headers'] = [self._ids.setdefault(name, len(self._ids)) for name in said['/A']['/Headers']]
        return said

    def _marked(self) -> Iterator[list[str]]:
        """For each page the tags that its marked content belongs to, by the parent tree, then those of annotations."""
        root = self._root.get('/StructTreeRoot')
        if root is None:
            return
        parents = {int(key): value for key, value in _tree(root.get('/ParentTree'), '/Nums')}
        for page in self._raw.pages:
            row = parents.get(int(page.get('/StructParents', -1)), [])
            marked = sorted({int(number) for number in re.findall(rb'/MCID (\d+)', _written(page.obj))})
            tags = [str(row[number].S) if number < len(row) else f'lost: {number}' for number in marked]
            for item in page.get('/Annots', []):
                if '/StructParent' in item:
                    element = parents.get(int(item.StructParent))
                    tags.append('lost annotation' if element is None else f'annotation: {element.S}')
            yield tags


def _tree(node: Any, key: str) -> Iterator[tuple[Any, Any]]:
    """The pairs of a name or number tree, in order."""
    stack = [] if node is None else [node]
    while stack:
        current = stack.pop()
        stack.extend(reversed(list(current.get('/Kids', []))))
        leaf = list(current.get(key, []))
        yield from zip(leaf[::2], leaf[1::2], strict=True)


def _written(holder: Any) -> bytes:
    """The content stream of a page, or of a resource that is one itself."""
    if isinstance(holder, pikepdf.Stream):
        return holder.read_bytes()
    contents = holder.get('/Contents')
    streams = list(contents) if isinstance(contents, pikepdf.Array) else [contents]
    return b'\n'.join(stream.read_bytes() for stream in streams if stream is not None)


def _fonts(page: Any) -> Iterator[str]:
    """The fonts that a page may use, whatever subset of each."""
    for font in page.obj.get('/Resources', {}).get('/Font', {}).values():
        yield SUBSET.sub('/', str(font.get('/BaseFont', '')))


def _field_name(field: Any) -> str | None:
    return NAMELESS_FIELD.sub(r'nameless\1', str(field.T)) if '/T' in field else None


def _intent(intent: Any) -> dict[str, Any]:
    keys = ('/S', '/OutputConditionIdentifier', '/Info')
    return {**{key: _plain(intent.get(key)) for key in keys}, 'profile': _digest(intent.get('/DestOutputProfile'))}


def _attachment(spec: Any) -> Any:
    if spec is None:
        return None
    keys = ('/F', '/UF', '/Desc', '/AFRelationship')
    return {**{key: _plain(spec.get(key)) for key in keys}, 'content': _digest(spec.EF.F)}


def _digest(stream: Any) -> str | None:
    return None if stream is None else hashlib.sha256(stream.read_bytes()).hexdigest()[:16]


def _numbers(values: Any) -> tuple[float, ...]:
    return tuple(round(float(value), 2) for value in values)


def _plain(value: Any) -> Any:
    """A small object as it reads; references to pages and elements do not come here."""
    if isinstance(value, pikepdf.Array):
        return [_plain(item) for item in value]
    if isinstance(value, pikepdf.Dictionary):
        return {key: _plain(item) for key, item in value.items()}
    return value if value is None or isinstance(value, bool | int) else str(value)
