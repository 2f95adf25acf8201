"""The message broker: Dramatiq over Redis or Valkey, used for hints only.

A message says "this part may be due" and carries ids, nothing else. Losing every message, or
receiving each one three times, changes nothing but the time: Postgres decides. Hence an empty
middleware list (no retries, no time limits, no age limits), an idle timeout of 10 ms instead of a
second, and no more messages taken than there are threads to work on them, over all queues that a process reads.

A worker reads a queue of its own beside the common one: for parts that it has something for that others would have to
make first. What nobody reads there, because the worker is gone, expires; such parts are told to all a while later.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from uuid import UUID

# Dramatiq reads this at import.
os.environ.setdefault('dramatiq_restart_delay', '500')

import redis
from dramatiq import Message, Worker
from dramatiq.brokers.redis import RedisBroker, _RedisConsumer
from dramatiq.errors import BrokerConnectionError

from runtime.errors import BrokerUnavailable, ConfigurationError
from runtime.logs import get_logger

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runtime.settings import Settings

WORKER_TIMEOUT_MS: Final = 10
RENDER_QUEUE: Final = 'render'
ASSEMBLE_QUEUE: Final = 'assemble'
#: kind of batch → (queue, actor) that works its parts
ROUTES: Final = {
    'plan': (RENDER_QUEUE, 'work_part'),
    'layout': (RENDER_QUEUE, 'work_part'),
    'paint': (RENDER_QUEUE, 'work_part'),
    'assemble': (ASSEMBLE_QUEUE, 'assemble_part'),
}

#: how long a worker's own queue is kept that nobody reads or adds to
OWN_QUEUE_SECONDS: Final = 600

log = get_logger(__name__)


def host_key(process: str) -> str:
    """A process's name as names of queues allow it."""
    return re.sub(r'[^a-zA-Z0-9._-]', '-', process)


def own_queue(host: str) -> str:
    """The queue of one worker."""
    return f'{RENDER_QUEUE}.{host}'


class _SharingConsumer(_RedisConsumer):
    """Takes no more messages than its broker's consumers may together: what one holds the others may not take."""

    @property
    def outstanding_message_count(self) -> int:
        return sum(consumer.own_count for consumer in list(self.broker.consumers.values()))

    @property
    def own_count(self) -> int:
        return len(self.queued_message_ids) + len(self.message_cache)


class HintBroker(RedisBroker):
    """A RedisBroker whose consumers share what they may take."""

    def __init__(self, client: redis.Redis) -> None:
        # Dramatiq's constructors have no annotations.
        super().__init__(client=client, middleware=[], namespace='fanfold')  # type: ignore[no-untyped-call]
        self.consumers: dict[str, _SharingConsumer] = {}

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> _SharingConsumer:
        consumer = _SharingConsumer(self, queue_name, prefetch, timeout)  # type: ignore[no-untyped-call]
        self.consumers[queue_name] = consumer
        return consumer


def connect_redis(settings: Settings) -> redis.Redis:
    """A client whose calls fail within seconds instead of hanging when Redis is away."""
    return redis.Redis.from_url(
        settings.redis_url, socket_connect_timeout=2, socket_timeout=10, health_check_interval=15
    )


def make_broker(settings: Settings) -> RedisBroker:
    return HintBroker(connect_redis(settings))


def check_broker(settings: Settings) -> None:
    """Refuse a Redis that may evict messages. Raises ConfigurationError or BrokerUnavailable."""
    with broker_errors(), connect_redis(settings) as client:
        policy = client.info('memory').get('maxmemory_policy')
    if policy not in {'noeviction', None}:
        raise ConfigurationError(
            f'FANFOLD_REDIS_URL: the server has maxmemory-policy {policy!r}, so it may drop messages; '
            "set 'maxmemory-policy noeviction'"
        )


@contextmanager
def broker_errors() -> Iterator[None]:
    """Map what redis and dramatiq raise when the server is away to BrokerUnavailable."""
    try:
        yield
    except (redis.RedisError, BrokerConnectionError, OSError) as error:
        raise BrokerUnavailable(f'redis: {error}') from error


def send_hint(
    broker: RedisBroker, *, kind: str, job_id: UUID, batch_no: int, part_index: int, host: str | None = None
) -> None:
    """Tell the workers, or one host's, that a part is due. Raises BrokerUnavailable."""
    queue, actor = ROUTES[kind]
    if host is not None:
        queue = own_queue(host)
    message: Message[None] = Message(
        queue_name=queue, actor_name=actor, args=(str(job_id), batch_no, part_index), kwargs={}, options={}
    )
    with broker_errors():
        broker.declare_queue(queue)
        broker.enqueue(message)
        if host is not None:
            for key in (queue, f'{queue}.msgs'):
                broker.client.expire(f'{broker.namespace}:{key}', OWN_QUEUE_SECONDS)


def start_worker(broker: RedisBroker, *, queues: Sequence[str], threads: int) -> Worker:
    """Work on the messages of these queues in so many threads."""
    for queue in queues:
        broker.declare_queue(queue)
    worker = Worker(broker, queues=set(queues), worker_timeout=WORKER_TIMEOUT_MS, worker_threads=threads)
    # Dramatiq counts messages in work as prefetched: with one for the process, one thread would work and the rest wait.
    worker.queue_prefetch = threads
    worker.start()
    return worker


def stop_listening(worker: Worker) -> None:
    """Take no more messages: those of a worker that is about to stop would be acknowledged without being worked on."""
    for consumer in worker.consumers.values():
        consumer.pause()
        consumer.paused_event.wait(timeout=2)


def check_broker_patiently(settings: Settings, *, patience_seconds: float = 60) -> None:
    """check_broker, waiting for a server that is still starting. Without an answer it goes on: messages are hints."""
    give_up = time.monotonic() + patience_seconds
    while True:
        try:
            return check_broker(settings)
        except BrokerUnavailable as error:
            log.warning('waiting for the broker', error=str(error))
            if time.monotonic() > give_up:
                return None
            time.sleep(0.5)
