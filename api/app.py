"""The application: routes, errors, documentation and the services behind them, put together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from api import problems
from api.access import AccessLog
from api.metrics import Metrics
from api.models import JobRequest
from api.routes import events, health, jobs, parts, result
from api.services import Services
from runtime.settings import Settings

VERSION: Final = '1'
DESCRIPTION: Final = """
Documents in, one PDF out, rendered in parallel. Submit a job, follow its events, download the result.

Errors are `application/problem+json` (RFC 9457) with a stable `type`.
"""


def create_app(settings: Settings) -> FastAPI:
    """An ASGI app whose lifespan opens what it needs; none of the servers need be there yet."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.services = services = Services.open(settings)
        try:
            yield
        finally:
            services.close()

    app = FastAPI(
        title='Fanfold',
        version=VERSION,
        description=DESCRIPTION,
        lifespan=lifespan,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.metrics = metrics = Metrics()
    app.add_middleware(AccessLog, metrics=metrics)
    problems.install(app)
    app.state.routes = []
    for router in (jobs.router, parts.router, events.router, result.router, health.router):
        for included in (router, _heads_of(router)):
            app.include_router(included)
            app.state.routes += included.routes
    app.openapi = lambda: _openapi(app, settings)  # type: ignore[method-assign]
    return app


def _heads_of(router: APIRouter) -> APIRouter:
    """HEAD for every GET of a router, undocumented."""
    heads = APIRouter()
    for route in router.routes:
        if isinstance(route, APIRoute) and 'GET' in (route.methods or ()):
            heads.add_api_route(
                route.path, route.endpoint, methods=['HEAD'], include_in_schema=False, response_model=None
            )
    return heads


def _drop_default_refusals(described: dict[str, Any]) -> None:
    """FastAPI documents a refusal of its own for every route with a parameter; ours are documented by name."""
    for unused in ('HTTPValidationError', 'ValidationError'):
        described['components']['schemas'].pop(unused, None)
    for operations in described['paths'].values():
        for operation in operations.values():
            refusal = operation['responses'].get('422', {}).get('content', {})
            if 'application/json' in refusal:
                del operation['responses']['422']


def _openapi(app: FastAPI, settings: Settings) -> dict[str, Any]:
    if app.openapi_schema is None:
        described = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes, tags=app.openapi_tags
        )
        schemas = described.setdefault('components', {}).setdefault('schemas', {})
        request = JobRequest.model_json_schema(ref_template='#/components/schemas/{model}')
        schemas.update(request.pop('$defs', {}))
        schemas['JobRequest'] = request
        schemas['Problem'] = problems.PROBLEM_SCHEMA
        _drop_default_refusals(described)
        described['x-limits'] = jobs.upload_limits(settings)
        app.openapi_schema = described
    return app.openapi_schema
