"""Free ports on the loopback interface, for servers that keep theirs while the stack runs.

They lie below the kernel's range for outgoing connections: a client that keeps trying the port of a server that is
down could otherwise be given that very port as its own, connect to itself, and keep the server from coming back.
"""

from __future__ import annotations

import random
import socket

LOWEST, HIGHEST = 18_000, 32_000


def is_free(port: int, host: str = '127.0.0.1') -> bool:
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def free_ports(count: int, *, remembered: tuple[int, ...] = ()) -> tuple[int, ...]:
    """`count` ports: those of the last run where they are still free, else others drawn at random."""
    if len(remembered) == count and all(is_free(port) for port in remembered):
        return remembered
    drawn = random.SystemRandom().sample(range(LOWEST, HIGHEST), k=HIGHEST - LOWEST)
    free = (port for port in drawn if is_free(port))
    return tuple(next(free) for _ in range(count))
