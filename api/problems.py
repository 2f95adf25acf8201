"""What clients get when something is wrong: `application/problem+json` as RFC 9457 has it.

Every refusal is an ApiProblem, raised anywhere below a route and mapped here, once. A problem's
`type` is stable; `errors`, where present, lists every fault with the path of its field and, where
the set is finite, its valid values. No exception text of a library reaches a client.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

import schema
from runtime.errors import PROBLEM_PREFIX, PROBLEM_TITLES, Problem, Refusal, StorageUnavailable, UnknownJob
from runtime.logs import get_logger

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request

MEDIA_TYPE: Final = 'application/problem+json'
#: seconds after which a client may try again
RETRY_UNAVAILABLE: Final = 2
#: faults listed in one answer
MOST_ERRORS: Final = 20

#: every problem that is not about a job's content (those are all 422)
STATUS: Final[dict[str, int]] = {
    'body-too-large': 413,
    'unsupported-media-type': 415,
    'queue-full': 429,
    'not-found': 404,
    'method-not-allowed': 405,
    'not-ready': 409,
    'conflict': 409,
    'expired': 410,
    'range-not-satisfiable': 416,
    'unavailable': 503,
    'internal-error': 500,
}

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldError:
    """One fault: `field` is a path such as `documents.0.html`; `valid` what could stand there."""

    field: str
    detail: str
    valid: Sequence[Any] | None = None

    def to_json(self) -> dict[str, Any]:
        fault: dict[str, Any] = {'field': self.field, 'detail': self.detail}
        return fault if self.valid is None else {**fault, 'valid': list(self.valid)}


class ApiProblem(Exception):
    """A refusal on its way to the client."""

    def __init__(self, name: str, detail: str, *, headers: Mapping[str, str] | None = None, **extra: Any) -> None:
        super().__init__(detail)
        self.problem = Problem(name=name, detail=detail, extra=extra)
        self.headers = dict(headers or {})


def field_problem(name: str, errors: Sequence[FieldError], **extra: Any) -> ApiProblem:
    """A refusal over one or more fields; its detail repeats the first fault."""
    first = errors[0]
    detail = f'{first.field}: {first.detail}'
    if len(errors) > 1:
        detail += f' (and {len(errors) - 1} more)'
    return ApiProblem(name, detail, errors=[error.to_json() for error in errors[:MOST_ERRORS]], **extra)


def refused(name: str, field: str, detail: str, valid: Sequence[Any] | None = None) -> ApiProblem:
    """A refusal over one field."""
    return field_problem(name, [FieldError(field=field, detail=detail, valid=valid)])


def problem_response(
    problem: Problem, *, path: str, request_id: str, headers: Mapping[str, str] | None = None
) -> Response:
    """The response for a problem; `path` is the request's, `request_id` what the log calls it."""
    status = STATUS.get(problem.name, 422)
    body = {
        'type': PROBLEM_PREFIX + problem.name,
        'title': PROBLEM_TITLES[problem.name],
        'status': status,
        'detail': problem.detail,
        'instance': path,
        'request_id': request_id,
        **problem.extra,
    }
    return Response(json.dumps(body).encode(), status_code=status, media_type=MEDIA_TYPE, headers=dict(headers or {}))


def _respond(request: Request, problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    request_id = str(request.scope.get('fanfold.request_id', ''))
    return problem_response(problem, path=request.url.path, request_id=request_id, headers=headers)


def _on_api_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiProblem)
    return _respond(request, error.problem, error.headers)


def _on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return _respond(request, error.problem)


def _on_unknown_job(request: Request, error: Exception) -> Response:
    return _respond(request, Problem(name='not-found', detail=f'there is no job {error}'))


def _on_unavailable(request: Request, error: Exception) -> Response:
    which = 'object storage' if isinstance(error, StorageUnavailable) else 'database'
    log.warning('unavailable', service=which, error=str(error).strip())
    problem = Problem(
        name='unavailable', detail=f'the {which} does not answer; try again', extra={'service': which.split()[-1]}
    )
    return _respond(request, problem, {'Retry-After': str(RETRY_UNAVAILABLE)})


def _on_not_migrated(request: Request, error: Exception) -> Response:
    log.error('the database does not have this version of the schema; run `fanfold migrate`', error=str(error).strip())
    detail = 'the database does not have this version of the schema: run fanfold migrate'
    problem = Problem(name='unavailable', detail=detail, extra={'service': 'database'})
    return _respond(request, problem, {'Retry-After': str(RETRY_UNAVAILABLE)})


def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == 405:
        methods = _methods_at(request)
        headers['Allow'] = ', '.join(methods)
        detail = f'{request.url.path} does not support {request.method}'
        problem = Problem(name='method-not-allowed', detail=detail, extra={'valid': methods})
    elif error.status_code == 404:
        problem = Problem(name='not-found', detail=f'there is nothing at {request.url.path}')
    else:
        title = HTTPStatus(error.status_code).phrase
        problem = Problem(name='invalid-request', detail=f'{title}: {error.detail}')
    return _respond(request, problem, headers)


def _methods_at(request: Request) -> list[str]:
    """All methods of the request's path, over all routes that match it."""
    matching = [route for route in request.app.state.routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in matching for method in route.methods or ()})


def _on_request_validation(request: Request, error: Exception) -> Response:
    """Query parameters: FastAPI's own validation."""
    from api.models import ListQuery, faults_of

    assert isinstance(error, RequestValidationError)
    stripped = [{**item, 'loc': tuple(item['loc'])[1:]} for item in error.errors()]
    name, errors = faults_of(stripped, ListQuery)
    return _on_api_problem(request, field_problem(name, errors))


def install(app: FastAPI) -> None:
    """Make every error of the app a problem."""
    app.add_exception_handler(ApiProblem, _on_api_problem)
    app.add_exception_handler(Refusal, _on_refusal)
    app.add_exception_handler(UnknownJob, _on_unknown_job)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(RequestValidationError, _on_request_validation)
    for kind in (StorageUnavailable, *schema.Unavailable):
        app.add_exception_handler(kind, _on_unavailable)
    for lacking in schema.NotMigrated:
        app.add_exception_handler(lacking, _on_not_migrated)


PROBLEM_SCHEMA: Final[dict[str, Any]] = {
    'title': 'Problem',
    'description': 'RFC 9457 problem details. `type` is stable; `errors` names every field at fault.',
    'type': 'object',
    'required': ['type', 'title', 'status', 'detail'],
    'properties': {
        'type': {'type': 'string', 'enum': [PROBLEM_PREFIX + name for name in PROBLEM_TITLES]},
        'title': {'type': 'string'},
        'status': {'type': 'integer'},
        'detail': {'type': 'string'},
        'instance': {'type': 'string'},
        'request_id': {'type': 'string'},
        'errors': {
            'type': 'array',
            'items': {
                'type': 'object',
                'required': ['field', 'detail'],
                'properties': {
                    'field': {'type': 'string', 'examples': ['documents.0.html']},
                    'detail': {'type': 'string'},
                    'valid': {'type': 'array', 'items': {}},
                },
            },
        },
    },
    'additionalProperties': True,
}


def documented(*names: str) -> dict[int | str, dict[str, Any]]:
    """OpenAPI responses of a route for the problems it may answer with; 500 and 503 included."""
    by_status: dict[int, list[str]] = {}
    for name in (*names, 'internal-error', 'unavailable'):
        by_status.setdefault(STATUS.get(name, 422), []).append(name)
    return {
        status: {
            'description': '; '.join(f'`{name}`: {PROBLEM_TITLES[name]}' for name in by_status[status]),
            'content': {MEDIA_TYPE: {'schema': {'$ref': '#/components/schemas/Problem'}}},
        }
        for status in sorted(by_status)
    }
