"""`fanfold health`: whether a service answers; the health check of containers."""

from __future__ import annotations

import click

from fanfold.commands.service import url_option


@click.command()
@click.option('--ready', is_flag=True, help='Ask whether its database, broker and storage answer, too.')
@click.option('--timeout', type=float, default=5.0, show_default=True, help='Seconds to wait for an answer.')
@url_option
def command(ready: bool, timeout: float, url: str | None) -> None:
    """Tell whether a service answers: exit code 0 if it does, 3 if not."""
    from fanfold.client import Client

    with Client(url, patience=0, timeout=timeout) as client:
        client.health(ready=ready)
    click.echo('ready' if ready else 'healthy')
