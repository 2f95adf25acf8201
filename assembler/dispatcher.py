"""The dispatcher: tells workers about due parts, through Redis, fair over tenants and jobs.

A message is a hint and may get lost; a part that nobody claimed is sent again after a while. So nothing
here waits for Redis: where it is away, the parts stay due. Only so many parts are told at a time, over all
jobs, since a queue is first come, first served: what is in it is ahead of a job that comes now. A queue
that nobody reads is not filled further, else an outage of all workers would pile up the same hints over and
over.

A part that one worker has something for goes to that worker's own queue first, and to all if it is not claimed there.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import schema
from runtime.broker import ROUTES, broker_errors, own_queue, send_hint
from runtime.logs import get_logger

if TYPE_CHECKING:
    from dramatiq.brokers.redis import RedisBroker

    from runtime.settings import Settings

PARTS_AT_ONCE: Final = 100
#: messages in one queue beyond which none are added
LONGEST_QUEUE: Final = 2_000

log = get_logger(__name__)


class Dispatcher:
    def __init__(self, pool: schema.Pool, broker: RedisBroker, settings: Settings) -> None:
        self._pool = pool
        self._broker = broker
        self._settings = settings
        self.dispatched: Counter[str] = Counter()

    def tick(self) -> bool:
        """Send what is due; whether there may be more. Raises BrokerUnavailable, schema.Unavailable."""
        due = schema.transact(
            self._pool,
            schema.due_parts,
            window=self._settings.dispatch_window,
            total_window=self._settings.dispatch_total,
            limit=PARTS_AT_ONCE,
            resend_after=timedelta(seconds=self._settings.resend_seconds),
        )
        sent: list[schema.PartKey] = []
        try:
            full = self._full_queues({queue_of(part) for part in due})
            for part in due:
                if queue_of(part) not in full:
                    self._send(part)
                    sent.append(part.key)
                    self.dispatched[part.kind] += 1
        finally:
            if sent:
                schema.transact(self._pool, schema.mark_dispatched, sent)
        return len(sent) == PARTS_AT_ONCE

    def _send(self, part: schema.DuePart) -> None:
        key = part.key
        send_hint(
            self._broker,
            kind=part.kind,
            job_id=key.job_id,
            batch_no=key.batch_no,
            part_index=key.part_index,
            host=part.host,
        )

    def _full_queues(self, queues: set[str]) -> set[str]:
        full = set()
        with broker_errors():
            for queue in queues:
                length = self._broker.do_qsize(queue)
                if length >= LONGEST_QUEUE:
                    log.warning('nobody reads the queue', queue=queue, messages=length)
                    full.add(queue)
        return full


def queue_of(part: schema.DuePart) -> str:
    return ROUTES[part.kind][0] if part.host is None else own_queue(part.host)
