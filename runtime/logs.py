"""Structured logs on standard error: one line an event, with job and part ids bound to it.

`bind(job_id=…, part_index=…)` adds ids to every line of the current thread or task. Lines are JSON
where a machine reads them and plain text on a terminal.
"""

from __future__ import annotations

import logging
import sys
from contextlib import AbstractContextManager
from typing import Any

import structlog

from runtime.settings import Settings

# Libraries that log each request or retry at INFO, or a stack trace at ERROR for what we handle.
QUIET = {
    'botocore': 'WARNING',
    'boto3': 'WARNING',
    'urllib3': 'ERROR',
    'dramatiq': 'WARNING',
    'alembic': 'WARNING',
    'psycopg.pool': 'ERROR',
    'httpx': 'WARNING',
    'fontTools': 'ERROR',
    'uvicorn.access': 'WARNING',
}


def configure_logs(settings: Settings, *, process: str) -> None:
    """Set up logging for a process named `process` (api, worker, assembler, …)."""
    as_json = settings.log_format == 'json' or (settings.log_format == 'auto' and not sys.stderr.isatty())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt='iso', utc=True),
    ]
    render: list[Any] = (
        [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
        if as_json
        else [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    logging.basicConfig(handlers=[handler], level=settings.log_level.upper(), force=True)
    for name, level in QUIET.items():
        logging.getLogger(name).setLevel(level)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(process=process)


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger


def bind(**ids: Any) -> AbstractContextManager[None]:
    """Add ids to every log line inside the `with` block."""
    return structlog.contextvars.bound_contextvars(**{key: str(value) for key, value in ids.items()})
