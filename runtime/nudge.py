"""Nudges: best-effort wake-ups between processes, so that a small job need not wait for a poll.

A nudge is a Redis publication without content. Nobody may rely on one: every loop that waits for
nudges also wakes by itself after its poll interval, and works the same without Redis.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Literal

import redis

from runtime.broker import connect_redis
from runtime.logs import get_logger

if TYPE_CHECKING:
    from runtime.settings import Settings

Topic = Literal['parts', 'events', 'jobs']
#: parts: a part became due. events: the outbox has a new event. jobs: what clients see changed.
TOPICS: Final[tuple[Topic, ...]] = ('parts', 'events', 'jobs')
CHANNEL: Final = 'fanfold:nudge:'
RECONNECT_SECONDS: Final = 0.5

log = get_logger(__name__)


class Nudger:
    """Sends nudges; never raises, never blocks for longer than the client's time-outs."""

    def __init__(self, settings: Settings) -> None:
        self._client = connect_redis(settings)

    def nudge(self, *topics: Topic) -> None:
        try:
            for topic in topics:
                self._client.publish(CHANNEL + topic, b'')
        except (redis.RedisError, OSError) as error:
            log.debug('nudge not sent', topics=topics, error=str(error))


class NudgeListener:
    """One thread that turns nudges into events that loops of this process can wait for."""

    def __init__(self, settings: Settings, *topics: Topic) -> None:
        self._settings = settings
        self._topics = topics
        self._events = {topic: threading.Event() for topic in topics}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._listen, name='nudges', daemon=True)
        self._thread.start()

    def wait(self, topic: Topic, timeout: float) -> bool:
        """Wait for a nudge, at most `timeout` seconds; True if one came."""
        event = self._events[topic]
        nudged = event.wait(timeout)
        event.clear()
        return nudged

    def wake(self) -> None:
        """Let every waiter go on at once, as for a shutdown."""
        for event in self._events.values():
            event.set()

    def close(self) -> None:
        self._stopping.set()
        self.wake()
        self._thread.join(timeout=5)

    def _listen(self) -> None:
        while not self._stopping.is_set():
            try:
                with connect_redis(self._settings) as client, client.pubsub(ignore_subscribe_messages=True) as pubsub:
                    pubsub.subscribe(*(CHANNEL + topic for topic in self._topics))
                    while not self._stopping.is_set():
                        message = pubsub.get_message(timeout=1)
                        if message is not None:
                            self._events[message['channel'].decode().removeprefix(CHANNEL)].set()
            except (redis.RedisError, OSError) as error:
                log.debug('nudges interrupted', error=str(error))
                self._stopping.wait(RECONNECT_SECONDS)
