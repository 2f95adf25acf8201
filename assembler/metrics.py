"""What the assembler tells Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

import schema
from runtime.errors import ConfigurationError
from runtime.logs import get_logger

if TYPE_CHECKING:
    from assembler.dispatcher import Dispatcher
    from assembler.reconciler import Reconciler
    from assembler.relay import Relay
    from assembler.sweeper import Sweeper

OUTCOMES: Final = ('completed', 'failed', 'cancelled')

log = get_logger(__name__)


class AssemblerMetrics(Collector):
    """Read when they are asked for; what a role of this process does not run is left out."""

    def __init__(
        self,
        pool: schema.Pool,
        *,
        relay: Relay | None,
        dispatcher: Dispatcher | None,
        reconciler: Reconciler | None,
        sweeper: Sweeper | None,
    ) -> None:
        self._pool = pool
        self._relay = relay
        self._dispatcher = dispatcher
        self._reconciler = reconciler
        self._sweeper = sweeper

    def collect(self) -> Iterator[Metric]:
        yield from self._of_the_database()
        if self._relay:
            ended = CounterMetricFamily('fanfold_jobs_ended', 'Jobs that came to an end', labels=['outcome'])
            for outcome in OUTCOMES:
                ended.add_metric([outcome], self._relay.ended[outcome])
            yield ended
        if self._dispatcher:
            hints = CounterMetricFamily('fanfold_hints_sent', 'Hints sent to workers', labels=['kind'])
            for kind, count in self._dispatcher.dispatched.items():
                hints.add_metric([kind], count)
            yield hints
        if self._reconciler:
            yield GaugeMetricFamily(
                'fanfold_reconciler_last_run_seconds',
                'When the reconciler last came to the end of a round, as Unix time',
                self._reconciler.last_run,
            )
            yield GaugeMetricFamily(
                'fanfold_stuck_jobs', 'Unfinished jobs that nothing moves', len(self._reconciler.stuck)
            )
        if self._sweeper:
            yield CounterMetricFamily('fanfold_objects_swept', 'Objects removed from the bucket', self._sweeper.swept)

    def _of_the_database(self) -> Iterator[Metric]:
        try:
            gauges = schema.transact(self._pool, schema.get_gauges)
        except schema.Unavailable as error:
            log.warning('metrics without the database', error=str(error).strip())
            return
        yield GaugeMetricFamily('fanfold_events_parked', 'Events given up on', gauges.events_parked)
        yield GaugeMetricFamily('fanfold_events_unsent', 'Events that wait', gauges.events_unsent)


def serve_metrics(metrics: AssemblerMetrics, *, host: str, port: int) -> None:
    """Answer /metrics in a thread until the process ends. Raises ConfigurationError for an address not to be had."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(metrics)
    try:
        start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise ConfigurationError(f'cannot serve metrics on {host} port {port}: {error.strerror or error}') from error
