"""`/healthz`, `/readyz`, `/metrics`: for machines that watch over this one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread
from fastapi import APIRouter, Request, Response

import schema
from api.problems import RETRY_UNAVAILABLE, ApiProblem, documented
from api.services import Services, Using
from runtime.broker import check_broker
from runtime.errors import FanfoldError

if TYPE_CHECKING:
    from psycopg import Connection

    from api.metrics import Metrics

CHECK_SECONDS: Final = 5.0
MOST_WHY: Final = 300

router = APIRouter(tags=['operation'])


@router.get('/healthz', summary='Whether this process serves')
async def healthz() -> dict[str, str]:
    return {'status': 'ok'}


@router.get('/readyz', summary='Whether what it depends on is there', responses=documented())
async def readyz(services: Using) -> dict[str, Any]:
    """Asks database, broker and storage. Without the broker jobs are taken in all the same, and done later."""
    checks: dict[str, dict[str, Any]] = {}

    async def note(name: str, check: Callable[[Services], None]) -> None:
        why = f'no answer within {CHECK_SECONDS:g} seconds'
        with anyio.move_on_after(CHECK_SECONDS):
            why = await anyio.to_thread.run_sync(_why, check, services, abandon_on_cancel=True)
        checks[name] = {'ok': not why, **({'why': why} if why else {})}

    async with anyio.create_task_group() as group:
        for name, check in CHECKS.items():
            group.start_soon(note, name, check)
    found = {name: checks[name] for name in CHECKS}
    away = [f'{name}: {result["why"]}' for name, result in found.items() if not result['ok']]
    if away:
        headers = {'Retry-After': str(RETRY_UNAVAILABLE)}
        raise ApiProblem('unavailable', '; '.join(away), headers=headers, checks=found)
    return {'status': 'ok', 'checks': found}


def _why(check: Callable[[Services], None], services: Services) -> str:
    """Why a check fails, empty if it does not."""
    try:
        check(services)
    except (FanfoldError, *schema.Unavailable) as error:
        return ' '.join(str(error).split())[:MOST_WHY] or type(error).__name__
    return ''


def _check_database(services: Services) -> None:
    def current(conn: Connection[Any]) -> bool:
        return schema.schema_is_current(conn)

    if not schema.transact(services.pool, current):
        raise FanfoldError('the database does not have this version of the schema; run `fanfold migrate`')


CHECKS: Final[dict[str, Callable[[Services], None]]] = {
    'database': _check_database,
    'broker': lambda services: check_broker(services.settings),
    'storage': lambda services: services.storage.ping(),
}


@router.get('/metrics', summary='Metrics for Prometheus', response_class=Response)
async def metrics(request: Request, services: Using) -> Response:
    kept: Metrics = request.app.state.metrics
    try:
        gauges = await services.transact(schema.get_gauges)
    except (*schema.Unavailable, *schema.NotMigrated):
        gauges = None
    return Response(kept.exposition(gauges, streams=services.feed.watching), media_type=kept.media_type)
