"""The assembler process: its roles as threads, each on its own, any of them alone or all together.

    relay       events → the next batch of their job          woken by nudges
    dispatcher  due parts → hints to workers                   woken by nudges
    assemble    painted parts → the result                     a Dramatiq worker
    reconciler  expired leases, deadlines, drift, retention
    sweeper     objects and rows whose time is over

Several such processes may run; all of them doing everything is safe. A role that fails goes on after a
pause, and says why; what it stands on being away is nothing but a longer pause.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from runtime.broker import check_broker_patiently, make_broker, stop_listening  # first: it sets what dramatiq reads

# isort: split
import schema
from assembler.dispatcher import Dispatcher
from assembler.metrics import AssemblerMetrics, serve_metrics
from assembler.reconciler import Reconciler
from assembler.relay import Relay
from assembler.sweeper import Sweeper
from assembler.worker import MERGED_AT_ONCE, Assembler, start_assembling
from runtime.errors import Retryable
from runtime.lifecycle import StopSignal, announce_ready
from runtime.logs import bind, get_logger
from runtime.nudge import NudgeListener, Nudger
from runtime.storage import Storage
from worker.fitness import Fitness

if TYPE_CHECKING:
    from dramatiq import Worker

    from runtime.settings import Settings

ROLES: Final = ('relay', 'dispatcher', 'assemble', 'reconciler', 'sweeper')
METRICS_HOST: Final = '127.0.0.1'
#: pause of a role after a failure: doubles with each in a row, capped
PAUSE_BASE_SECONDS: Final = 0.1
PAUSE_CAP_SECONDS: Final = 2.0
STOP_SECONDS: Final = 10.0

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A role that looks for work again and again. `tick` says whether there may be more at once, `rest` waits."""

    name: str
    tick: Callable[[], bool]
    rest: Callable[[], object]


def run_loop(loop: Loop, stopping: threading.Event) -> None:
    """Tick until it is time to stop, whatever a tick raises."""
    failures = 0
    with bind(role=loop.name):
        while not stopping.is_set():
            try:
                more = loop.tick()
            except (Retryable, *schema.Unavailable) as error:
                log.warning('waiting for what this role stands on', error=str(error).strip())
            except Exception:
                log.exception('role failed, it goes on after a pause')
            else:
                failures = 0
                if not more:
                    loop.rest()
                continue
            failures += 1
            stopping.wait(min(PAUSE_BASE_SECONDS * 2 ** min(failures, 10), PAUSE_CAP_SECONDS))


class Service:
    """The roles that were asked for, and what they share."""

    def __init__(self, settings: Settings, roles: Sequence[str]) -> None:
        if unknown := set(roles) - set(ROLES):
            raise ValueError(f'unknown roles: {sorted(unknown)}; there are {", ".join(ROLES)}')
        self.settings = settings
        self._stopping = threading.Event()
        self._closing = ExitStack()
        self._threads: list[threading.Thread] = []
        self.pool = schema.open_pool(settings.database_url, max_size=len(roles) + MERGED_AT_ONCE + 1, name='assembler')
        self._closing.callback(self.pool.close)
        self._nudger = Nudger(settings)
        self._broker = make_broker(settings)
        self._closing.callback(self._broker.close)
        self._storage = Storage(settings)
        self._listener = NudgeListener(settings, 'events', 'parts')
        self._closing.callback(self._listener.close)
        self._relay = Relay(self.pool, self._nudger) if 'relay' in roles else None
        self._dispatcher = Dispatcher(self.pool, self._broker, settings) if 'dispatcher' in roles else None
        self._reconciler = Reconciler(self.pool, self._nudger, settings) if 'reconciler' in roles else None
        self._sweeper = Sweeper(self.pool, self._storage, settings) if 'sweeper' in roles else None
        self._assembler = None
        self._worker: Worker | None = None
        if 'assemble' in roles:
            self._assembler = Assembler(settings, self.pool, self._storage, self._nudger)
            self._closing.callback(self._assembler.close)
        self.fitness = self._assembler.fitness if self._assembler else Fitness()

    def _loops(self) -> list[Loop]:
        settings, listener, stopping = self.settings, self._listener, self._stopping
        loops = []
        if self._relay:
            rest = partial(listener.wait, 'events', settings.relay_seconds)
            loops.append(Loop(name='relay', tick=self._relay.tick, rest=rest))
        if self._dispatcher:
            rest = partial(listener.wait, 'parts', settings.dispatch_seconds)
            loops.append(Loop(name='dispatcher', tick=self._dispatcher.tick, rest=rest))
        if self._reconciler:
            pause = partial(stopping.wait, settings.reconcile_seconds)
            loops.append(Loop(name='reconciler', tick=self._reconciler.tick, rest=pause))
        if self._sweeper:
            pause = partial(stopping.wait, settings.sweep_seconds)
            loops.append(Loop(name='sweeper', tick=self._sweeper.tick, rest=pause))
        return loops

    def start(self) -> None:
        for loop in self._loops():
            thread = threading.Thread(target=run_loop, args=(loop, self._stopping), name=loop.name, daemon=True)
            thread.start()
            self._threads.append(thread)
        if self._assembler:
            self._worker = start_assembling(self._assembler, self._broker)
            self._closing.callback(self._worker.stop, timeout=5_000)

    def serve_metrics(self, port: int, *, host: str = METRICS_HOST) -> None:
        metrics = AssemblerMetrics(
            self.pool,
            relay=self._relay,
            dispatcher=self._dispatcher,
            reconciler=self._reconciler,
            sweeper=self._sweeper,
        )
        serve_metrics(metrics, host=host, port=port)

    def stop(self) -> None:
        """End the loops, let assemblies finish or give them back, and close everything."""
        self._stopping.set()
        self._listener.wake()
        for thread in self._threads:
            thread.join(timeout=STOP_SECONDS)
        if self._assembler and self._worker:
            stop_listening(self._worker)
            self._assembler.holder.drain(self.settings.grace_seconds)
        self._closing.close()


def await_schema(pool: schema.Pool) -> None:
    """Wait until the database answers and has the present schema."""
    never = threading.Event()
    while True:
        try:
            if schema.transact(pool, schema.schema_is_current):
                return
            log.warning('waiting for the database to be migrated')
        except schema.Unavailable as error:
            log.warning('waiting for the database', error=str(error).strip())
        never.wait(0.5)


def run_assembler(
    settings: Settings,
    roles: Sequence[str] = ROLES,
    *,
    metrics_port: int | None = None,
    metrics_host: str = METRICS_HOST,
) -> None:
    """Run until SIGTERM or SIGINT; an assembler that turns out unfit stops by itself, with status 1.

    Raises ConfigurationError for a Redis that may evict messages, and for an address of the metrics that is not to be
    had.
    """
    check_broker_patiently(settings)
    service = Service(settings, roles)
    await_schema(service.pool)
    stop = StopSignal()
    if metrics_port is not None:
        service.serve_metrics(metrics_port, host=metrics_host)
    service.start()
    service.fitness.watch(lambda: os.kill(os.getpid(), signal.SIGTERM))
    announce_ready()
    log.info('assembler ready', roles=', '.join(roles))
    stop.wait()
    log.info('assembler stopping', grace_seconds=settings.grace_seconds)
    service.stop()
    log.info('assembler stopped')
    if service.fitness.unfit_because is not None:
        raise SystemExit(1)
