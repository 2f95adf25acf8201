"""What a request may say, and how what is wrong with it is told.

A job is validated here as far as its JSON goes; what depends on its files or on the settings follows
in `api.intake`. Unknown fields are refused: a misspelt option must not be ignored.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from api.options import NO_CONTROLS, FileName, Options
from api.problems import FieldError, field_problem

SOURCES: Final = ('html', 'file', 'template', 'template_file', 'pdf_file')
RECORDS: Final = ('records', 'records_file')
JOB_STATUSES: Final = ('queued', 'rendering', 'assembling', 'completed', 'failed', 'cancelled', 'expired')

JobStatus = Literal['queued', 'rendering', 'assembling', 'completed', 'failed', 'cancelled', 'expired']


class Document(BaseModel):
    """One source: HTML, a Jinja2 template with records, or a PDF; inline or as a file of the job."""

    model_config = ConfigDict(
        extra='forbid',
        strict=True,
        json_schema_extra={
            'oneOf': [
                {'required': ['html']},
                {'required': ['file']},
                {'required': ['pdf_file']},
                {'required': ['template', 'records']},
                {'required': ['template', 'records_file']},
                {'required': ['template_file', 'records']},
                {'required': ['template_file', 'records_file']},
            ]
        },
    )

    html: Annotated[str, Field(description='the HTML itself')] | None = None
    file: Annotated[FileName, Field(description='name of an HTML file of the job')] | None = None
    pdf_file: Annotated[FileName, Field(description='name of a PDF of the job, whose pages come along')] | None = None
    template: Annotated[str, Field(description='a Jinja2 template that makes HTML of one record')] | None = None
    template_file: Annotated[FileName, Field(description='name of a template among the files of the job')] | None = None
    records: Annotated[list[dict[str, Any]], Field(description='one document is made of each')] | None = None
    records_file: Annotated[FileName, Field(description='name of a JSON array or NDJSON file of the job')] | None = None

    @model_validator(mode='after')
    def _one_source(self) -> Document:
        sources = [name for name in SOURCES if getattr(self, name) is not None]
        records = [name for name in RECORDS if getattr(self, name) is not None]
        if len(sources) != 1:
            raise PydanticCustomError('source', f'needs exactly one of {", ".join(SOURCES)}', {'valid': list(SOURCES)})
        if sources[0] in {'html', 'file', 'pdf_file'}:
            if records:
                raise PydanticCustomError(
                    'records', f'{records[0]} needs a template', {'valid': ['template', 'template_file']}
                )
        elif len(records) != 1:
            raise PydanticCustomError(
                'records', f'{sources[0]} needs exactly one of {" and ".join(RECORDS)}', {'valid': list(RECORDS)}
            )
        return self


class JobRequest(BaseModel):
    """A job: documents in the order of the PDF to make, and how to make it."""

    model_config = ConfigDict(extra='forbid', strict=True)

    documents: (
        Annotated[list[Document], Field(description='left out in a multipart request: the file `index.html`')] | None
    ) = None
    options: Options = Field(default_factory=Options)
    on_part_failure: Annotated[
        Literal['fail', 'partial'],
        Field(description='`partial`: what cannot be rendered becomes a placeholder page, and the job completes'),
    ] = 'fail'
    expires_in: Annotated[float, Field(ge=1, description='seconds that the job is kept after its end')] | None = None
    deadline: Annotated[float, Field(ge=1, description='seconds that the job may take')] | None = None


class ListQuery(BaseModel):
    """Which jobs to list; newest first."""

    model_config = ConfigDict(extra='forbid')

    status: JobStatus | None = None
    limit: int = Field(50, ge=1, le=200)
    cursor: str | None = Field(None, max_length=500, description='from `next` of the page before')


class PartsQuery(BaseModel):
    """Which parts to list; in order of batch and index."""

    model_config = ConfigDict(extra='forbid')

    limit: int = Field(200, ge=1, le=1_000)
    cursor: str | None = Field(None, max_length=500, description='from `next` of the page before')


def parse_job(raw: object) -> JobRequest:
    """The job that a JSON value says. Raises ApiProblem listing every fault."""
    try:
        return JobRequest.model_validate(raw)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        name, faults = faults_of(errors, JobRequest)
        if all(map(_is_bad_record, errors)):
            _, document, _, record = errors[0]['loc']
            raise field_problem('records-invalid', faults, document=document, record=record) from error
        raise field_problem(name, faults) from error


def _is_bad_record(error: Mapping[str, Any]) -> bool:
    """Whether a record of a document is something else than an object; a records file has the same problem."""
    loc = error['loc']
    return error['type'] == 'dict_type' and len(loc) == 4 and (loc[0], loc[2]) == ('documents', 'records')


def faults_of(errors: Sequence[Mapping[str, Any]], model: type[BaseModel]) -> tuple[str, list[FieldError]]:
    """Pydantic's errors in our words, with the name of the problem that they make together."""
    unknown = all(error['type'] == 'extra_forbidden' for error in errors)
    faults = [_fault(error, model) for error in errors]
    return 'unknown-field' if unknown else 'invalid-request', faults


#: pydantic's type of error → our words; the rest keep pydantic's
WORDS: Final = {
    'missing': 'is required',
    'extra_forbidden': 'there is no such field',
    'dict_type': 'must be an object',
    'model_type': 'must be an object',
    'model_attributes_type': 'must be an object',
    'list_type': 'must be a list',
    'string_type': 'must be a string',
    'string_unicode': 'is not valid Unicode: it has half of a surrogate pair',
    'string_too_short': 'must not be empty',
    'bool_type': 'must be true or false',
    'bool_parsing': 'must be true or false',
    'int_type': 'must be a whole number',
    'int_parsing': 'must be a whole number',
    'int_from_float': 'must be a whole number',
    'float_type': 'must be a number',
    'finite_number': 'must be a finite number',
}


def _fault(error: Mapping[str, Any], model: type[BaseModel]) -> FieldError:
    kind, context = error['type'], error.get('ctx', {})
    loc = tuple(part for part in error['loc'] if not (isinstance(part, str) and part.startswith('function-')))
    field = '.'.join(map(str, loc)) or 'body'
    valid: Sequence[Any] | None = context.get('valid')
    detail = WORDS.get(kind)
    if kind == 'extra_forbidden':
        valid = _fields_at(model, loc[:-1])
    elif kind in {'literal_error', 'enum'}:
        valid = _literals_at(model, loc)
        detail = 'must be one of the valid values'
    elif kind in {'bool_type', 'bool_parsing'}:
        valid = [True, False]
    elif kind in {'greater_than_equal', 'less_than_equal'}:
        bound = context.get('ge', context.get('le'))
        detail = f'must be at {"least" if "ge" in context else "most"} {bound:g}'
    elif kind == 'string_too_long':
        detail = f'must have at most {context.get("max_length")} characters'
    elif kind == 'string_pattern_mismatch':
        pattern = str(context.get('pattern'))
        detail = 'must have no control characters' if pattern == NO_CONTROLS else f'must match {pattern}'
    return FieldError(field=field, detail=detail or error['msg'], valid=valid)


def _bare(annotation: Any) -> Any:
    """An annotation without Annotated and `| None`."""
    while True:
        origin = typing.get_origin(annotation)
        if origin is Annotated:
            annotation = typing.get_args(annotation)[0]
        elif origin in {types.UnionType, typing.Union}:
            members = [item for item in typing.get_args(annotation) if item is not type(None)]
            if len(members) != 1:
                return annotation
            annotation = members[0]
        else:
            return annotation


def _annotation_at(model: type[BaseModel], loc: Sequence[str | int]) -> Any:
    at: Any = model
    for step in loc:
        if isinstance(step, int):
            at = _bare(typing.get_args(at)[0]) if typing.get_args(at) else None
        elif isinstance(at, type) and issubclass(at, BaseModel) and step in at.model_fields:
            at = _bare(at.model_fields[step].annotation)
        else:
            return None
    return at


def _fields_at(model: type[BaseModel], loc: Sequence[str | int]) -> list[str] | None:
    at = _annotation_at(model, loc)
    return list(at.model_fields) if isinstance(at, type) and issubclass(at, BaseModel) else None


def _literals_at(model: type[BaseModel], loc: Sequence[str | int]) -> list[Any] | None:
    at = _annotation_at(model, loc)
    return list(typing.get_args(at)) if typing.get_origin(at) is Literal else None
