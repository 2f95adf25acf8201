"""What a job may contain: documents, options and metadata, as typed values of `job.spec`.

An *item* is one document to render: an HTML document, one record poured into a template, or an existing PDF. Items are
numbered over the whole job in order, from 0; a part is a contiguous range of items. Documents and
records are counted from 0 too, wherever they are named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class HtmlDocument:
    """An HTML document. `source` is a member of the input archive; `base_url` resolves its relative URLs."""

    source: str
    base_url: str
    title_name: str | None = None

    @property
    def item_count(self) -> int:
        return 1

    def to_json(self) -> dict[str, Any]:
        named = {} if self.title_name is None else {'title_name': self.title_name}
        return {'kind': 'html', 'source': self.source, 'base_url': self.base_url, **named}


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateDocument:
    """A Jinja2 template and the member of the archive that holds its records."""

    source: str
    base_url: str
    records: str
    record_count: int

    @property
    def item_count(self) -> int:
        return self.record_count

    def to_json(self) -> dict[str, Any]:
        return {
            'kind': 'template',
            'source': self.source,
            'base_url': self.base_url,
            'records': self.records,
            'record_count': self.record_count,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PdfDocument:
    """An existing PDF. `source` is a member of the input archive, `title_name` its name in the job."""

    source: str
    title_name: str

    @property
    def item_count(self) -> int:
        return 1

    def to_json(self) -> dict[str, Any]:
        return {'kind': 'pdf', 'source': self.source, 'title_name': self.title_name}


Document = HtmlDocument | TemplateDocument | PdfDocument


def document_from_json(value: Mapping[str, Any]) -> Document:
    match value['kind']:
        case 'html':
            return HtmlDocument(source=value['source'], base_url=value['base_url'], title_name=value.get('title_name'))
        case 'template':
            return TemplateDocument(
                source=value['source'],
                base_url=value['base_url'],
                records=value['records'],
                record_count=value['record_count'],
            )
        case 'pdf':
            return PdfDocument(source=value['source'], title_name=value['title_name'])
        case kind:
            raise ValueError(f'unknown kind of document: {kind!r}')


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """Document information that the job sets itself; None or empty: as the first document says."""

    title: str | None = None
    author: str | None = None
    subject: str | None = None
    keywords: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        fields = {'title': self.title, 'author': self.author, 'subject': self.subject, 'keywords': list(self.keywords)}
        return {name: value for name, value in fields.items() if value}

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | None) -> Self:
        value = value or {}
        return cls(
            title=value.get('title'),
            author=value.get('author'),
            subject=value.get('subject'),
            keywords=tuple(value.get('keywords') or ()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """The object that holds all a job was submitted with."""

    key: str
    sha256: str
    bytes: int

    def to_json(self) -> dict[str, Any]:
        return {'key': self.key, 'sha256': self.sha256, 'bytes': self.bytes}


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One document to render. `record` is None for an HTML document."""

    number: int
    document: int
    record: int | None

    @property
    def position(self) -> tuple[int, int | None]:
        return self.document, self.record


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """`job.spec`. `options` are WeasyPrint's, under its own names; see api/options.py for their values."""

    documents: tuple[Document, ...]
    input: Input
    options: Mapping[str, Any] = field(default_factory=dict)
    parts: Literal['auto'] | int = 'auto'
    #: whether each of several documents has a bookmark above its own
    document_bookmarks: bool = False
    #: what is done with the finished PDF: `linearize`, and `encrypt` with its passwords and permissions
    finishing: Mapping[str, Any] = field(default_factory=dict)
    metadata: Metadata = Metadata()

    @property
    def item_count(self) -> int:
        return sum(document.item_count for document in self.documents)

    def items(self, first: int = 0, count: int | None = None) -> Iterator[Item]:
        """The items numbered `first`, `first + 1`, …: `count` of them, or all that follow."""
        end = self.item_count if count is None else first + count
        start = 0
        for index, document in enumerate(self.documents):
            stop = start + document.item_count
            for number in range(max(first, start), min(end, stop)):
                record = number - start if isinstance(document, TemplateDocument) else None
                yield Item(number=number, document=index, record=record)
            start = stop

    def to_json(self) -> dict[str, Any]:
        return {
            'documents': [document.to_json() for document in self.documents],
            'options': dict(self.options),
            'parts': self.parts,
            **({'document_bookmarks': True} if self.document_bookmarks else {}),
            **({'finishing': dict(self.finishing)} if self.finishing else {}),
            'metadata': self.metadata.to_json(),
            'input': self.input.to_json(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        source = value['input']
        return cls(
            documents=tuple(document_from_json(document) for document in value['documents']),
            options=dict(value.get('options') or {}),
            parts=value.get('parts', 'auto'),
            document_bookmarks=value.get('document_bookmarks', False),
            finishing=value.get('finishing') or {},
            metadata=Metadata.from_json(value.get('metadata')),
            input=Input(key=source['key'], sha256=source['sha256'], bytes=source['bytes']),
        )
