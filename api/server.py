"""Serving the app with uvicorn: one process, one loop, a clean end."""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING, Final

import uvicorn

from api.app import create_app
from runtime.errors import ConfigurationError
from runtime.logs import get_logger

if TYPE_CHECKING:
    from runtime.settings import Settings

BACKLOG: Final = 512
KEEP_ALIVE_SECONDS: Final = 30

log = get_logger(__name__)


def serve(settings: Settings, *, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT, then finish what is under way. Raises ConfigurationError for a port in use."""
    listening = _listen(host, port)
    config = uvicorn.Config(
        create_app(settings),
        log_config=None,  # our own logging stands already
        access_log=False,  # api.access writes it
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(1, round(settings.grace_seconds)),
    )
    address = listening.getsockname()
    shown = f'[{address[0]}]' if ':' in address[0] else address[0]
    log.info('api listens', url=f'http://{shown}:{address[1]}')
    server = uvicorn.Server(config)

    def stop(*_: object) -> None:
        server.should_exit = True

    # uvicorn puts its own handlers in front of these, and in the end raises again what it caught: then nothing
    # is left to do, and the process ends as one that was asked to, with 0.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    with listening:
        server.run(sockets=[listening])
    log.info('api stopped')


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigurationError(f'--host {host}: {error.strerror or error}') from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise ConfigurationError(f'cannot listen on {host} port {port}: {error.strerror}') from error
    return listening
