"""`fanfold api`: serve the HTTP API until told to stop."""

from __future__ import annotations

import click


@click.command()
@click.option('--host', default='127.0.0.1', show_default=True, help='Address to listen on.')
@click.option('--port', type=click.IntRange(0, 65_535), default=8000, show_default=True, help='Port; 0: a free one.')
@click.option('--log-format', type=click.Choice(['auto', 'console', 'json']), help='How log lines look.')
def command(host: str, port: int, log_format: str | None) -> None:
    """Serve the HTTP API until SIGTERM; requests under way are then finished."""
    from api.server import serve
    from runtime.logs import configure_logs
    from runtime.settings import load_settings

    settings = load_settings(**({'log_format': log_format} if log_format else {}))
    configure_logs(settings, process='api')
    serve(settings, host=host, port=port)
