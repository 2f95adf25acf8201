"""`fanfold worker`: render parts until told to stop."""

from __future__ import annotations

import click


@click.command()
@click.option('--threads', type=click.IntRange(min=1), help='Parts rendered at once.  [default: the usable cores]')
def command(threads: int | None) -> None:
    """Render parts of jobs until SIGTERM, then hand back what is unfinished."""
    from renderer.worker import run_worker
    from runtime.broker import check_broker_patiently
    from runtime.logs import configure_logs
    from runtime.settings import load_settings

    settings = load_settings(**({'worker_threads': threads} if threads else {}))
    configure_logs(settings, process='worker')
    check_broker_patiently(settings)
    run_worker(settings)
