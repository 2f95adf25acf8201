"""What the API measures: its own requests, and the state of the queue as the database has it when asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

if TYPE_CHECKING:
    from schema import Gauges

#: a client may send any token as a method; only these get a series of their own
METHODS: Final = frozenset({'GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'})
BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """One registry for one app."""

    media_type: Final = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            'fanfold_http_requests', 'Requests answered', ['method', 'route', 'status'], registry=self._registry
        )
        self._seconds = Histogram(
            'fanfold_http_request_seconds', 'Time to answer', ['route'], buckets=BUCKETS, registry=self._registry
        )
        self._database = Gauge('fanfold_database_up', 'Whether the database answered', registry=self._registry)
        self._streams = Gauge('fanfold_event_streams', 'Open event streams', registry=self._registry)
        self._jobs = Gauge('fanfold_jobs', 'Unfinished jobs', ['status'], registry=self._registry)
        self._parts_pending = Gauge('fanfold_parts_pending', 'Parts of running batches to do', registry=self._registry)
        self._parts_leased = Gauge('fanfold_parts_leased', 'Parts being worked on', registry=self._registry)
        self._unsent = Gauge('fanfold_events_unsent', 'Events not yet handled', registry=self._registry)
        self._parked = Gauge('fanfold_events_parked', 'Events given up', registry=self._registry)

    def observe_request(self, *, method: str, route: str, status: int, seconds: float) -> None:
        known = method if method in METHODS else 'OTHER'
        self._requests.labels(known, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def exposition(self, gauges: Gauges | None, *, streams: int) -> bytes:
        """All metrics as text; `gauges` None while the database cannot be asked: then what it would tell is NaN."""
        self._streams.set(streams)
        self._database.set(0 if gauges is None else 1)
        self._jobs.clear()
        for status, count in ({} if gauges is None else gauges.jobs).items():
            self._jobs.labels(status).set(count)
        away = float('nan')
        self._parts_pending.set(away if gauges is None else gauges.parts_pending)
        self._parts_leased.set(away if gauges is None else gauges.parts_leased)
        self._unsent.set(away if gauges is None else gauges.events_unsent)
        self._parked.set(away if gauges is None else gauges.events_parked)
        return generate_latest(self._registry)
