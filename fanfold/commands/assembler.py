"""`fanfold assembler`: merge parts and keep jobs moving until told to stop."""

from __future__ import annotations

import click

ROLES = ('relay', 'dispatcher', 'assemble', 'reconciler', 'sweeper')


def _roles(_context: click.Context, _parameter: click.Parameter, value: str) -> tuple[str, ...]:
    roles = tuple(role.strip() for role in value.split(','))
    for role in roles:
        if role not in ROLES:
            raise click.BadParameter(f'{role!r} is not a role; there are {", ".join(ROLES)}')
    return roles


@click.command()
@click.option('--roles', default=','.join(ROLES), callback=_roles, help='Roles of this process.', show_default=True)
@click.option('--metrics-port', type=click.IntRange(1, 65535), help='Answer /metrics on this port.')
@click.option('--metrics-host', default='127.0.0.1', show_default=True, help='Address to answer /metrics on.')
def command(roles: tuple[str, ...], metrics_port: int | None, metrics_host: str) -> None:
    """Merge painted parts, dispatch parts, move jobs on and clean up, until SIGTERM."""
    from assembler.service import run_assembler
    from runtime.logs import configure_logs
    from runtime.settings import load_settings

    settings = load_settings()
    configure_logs(settings, process='assembler')
    run_assembler(settings, roles, metrics_port=metrics_port, metrics_host=metrics_host)
