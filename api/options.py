"""WeasyPrint's options as a job may give them, under WeasyPrint's own names.

The valid values stand here literally, so that the API need not import WeasyPrint; a test holds them
against it. What the service decides itself (identifiers, caches, arbitrary XMP files) is left out.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, WrapValidator, model_validator
from pydantic_core import PydanticCustomError

PdfVariant = Literal[
    'pdf/a-1b', 'pdf/a-2b', 'pdf/a-3b', 'pdf/a-2u', 'pdf/a-3u', 'pdf/a-4u', 'pdf/a-1a', 'pdf/a-2a', 'pdf/a-3a',
    'pdf/a-4e', 'pdf/a-4f', 'pdf/ua-1', 'pdf/ua-2', 'pdf/x-1a', 'pdf/x-3', 'pdf/x-4', 'pdf/x-5g', 'debug',
]  # fmt: skip
PdfVersion = Literal['1.3', '1.4', '1.5', '1.6', '1.7', '2.0']

#: ISO 32000-2, 7.11.3, AFRelationship
Relationship = Literal[
    'Source', 'Data', 'Alternative', 'Supplement', 'EncryptedPayload', 'FormData', 'Schema', 'Unspecified'
]

#: text that ends up in Postgres and in PDF strings: no control characters
NO_CONTROLS: Final = r'^[^\x00-\x1f\x7f]*$'
Line = Annotated[str, Field(max_length=2_000, pattern=NO_CONTROLS)]
FileName = Annotated[str, Field(min_length=1)]
MOST_PARTS: Final = 100_000
#: options that are not WeasyPrint's
BESIDE: Final = ('parts', 'document_bookmarks', 'linearize', 'encrypt', 'metadata')


def _known_parts(value: object) -> object:
    if value == 'auto' or (type(value) is int and 1 <= value <= MOST_PARTS):
        return value
    raise PydanticCustomError(
        'parts', f'must be "auto" or a whole number from 1 to {MOST_PARTS}', {'valid': ['auto', f'1 … {MOST_PARTS}']}
    )


Parts = Annotated[
    Literal['auto'] | int,
    WrapValidator(lambda value, _: _known_parts(value)),
    WithJsonSchema(
        {
            'anyOf': [{'const': 'auto'}, {'type': 'integer', 'minimum': 1, 'maximum': MOST_PARTS}],
            'description': 'how many parts the job is rendered in, at most; `auto`: as its size asks',
        }
    ),
]


class Metadata(BaseModel):
    """Document information of the merged PDF; what is not given comes from the first document."""

    model_config = ConfigDict(extra='forbid', strict=True)

    title: Line | None = None
    author: Line | None = None
    subject: Line | None = None
    keywords: Annotated[list[Line], Field(max_length=100)] | None = None


Permission = Literal['print', 'copy', 'annotate', 'fill', 'assemble', 'modify']


class Encryption(BaseModel):
    """Who may open the PDF, and what readers may do who do not know the owner's password."""

    model_config = ConfigDict(extra='forbid', strict=True)

    owner_password: Annotated[str, Field(min_length=1, max_length=127)]
    user_password: Annotated[str, Field(max_length=127, description='empty: everybody may open it')] = ''
    permissions: list[Permission] = Field(default_factory=list)


class Options(BaseModel):
    """How to render: WeasyPrint's options, `parts` and `metadata`."""

    model_config = ConfigDict(extra='forbid', strict=True)

    pdf_variant: PdfVariant | None = None
    pdf_version: PdfVersion | None = None
    pdf_tags: bool | None = None
    pdf_forms: bool | None = None
    uncompressed_pdf: bool | None = None
    custom_metadata: bool | None = None
    presentational_hints: bool | None = None
    output_intent: (
        Annotated[Line, Field(description='`srgb`, `device-cmyk`, or the identifier of a CSS color profile')] | None
    ) = None
    optimize_images: bool | None = None
    jpeg_quality: Annotated[int, Field(ge=0, le=95)] | None = None
    dpi: Annotated[int, Field(ge=1, le=10_000)] | None = None
    full_fonts: bool | None = None
    hinting: bool | None = None
    stylesheets: (
        Annotated[
            list[FileName],
            Field(max_length=100, description='names of CSS files of the job, applied to every document'),
        ]
        | None
    ) = None
    attachments: (
        Annotated[list[FileName], Field(max_length=100, description='names of files of the job to attach to the PDF')]
        | None
    ) = None
    attachment_relationships: (
        Annotated[
            list[Relationship],
            Field(max_length=100, description='what each attachment is to the document, in their order'),
        ]
        | None
    ) = None
    media_type: Annotated[str, Field(pattern=r'^[a-z][a-z0-9-]{0,31}$', description='CSS media type')] | None = None
    zoom: Annotated[float, Field(ge=0.01, le=100)] | None = None

    parts: Parts = 'auto'
    document_bookmarks: bool | None = None
    linearize: bool | None = None
    encrypt: Encryption | None = None
    metadata: Metadata | None = None

    @model_validator(mode='after')
    def _conforms(self) -> Options:
        if self.encrypt is not None and (self.pdf_variant or '').startswith(('pdf/a', 'pdf/x')):
            raise PydanticCustomError('encrypt', f'{self.pdf_variant} does not allow `encrypt`', {})
        return self

    def finishing(self) -> dict[str, object]:
        """What is done with the finished PDF."""
        given: dict[str, object] = {'linearize': True} if self.linearize else {}
        return given if self.encrypt is None else {**given, 'encrypt': self.encrypt.model_dump()}

    def rendering(self) -> dict[str, object]:
        """The options that go to WeasyPrint: those that were given."""
        return self.model_dump(exclude_none=True, exclude=set(BESIDE))
