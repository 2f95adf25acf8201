"""What a person runs or imports: the command line, the client, the stack in one command.

from fanfold import Client

with Client('http://127.0.0.1:8000') as client:
    job = client.submit([{'html': '<h1>Hello</h1>'}])
    client.wait(job)
    client.download(job, 'hello.pdf')
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fanfold.client import Client, Job, Part, Problem

__version__ = '0.1.0'
__all__ = ['Client', 'Job', 'Part', 'Problem', '__version__']


def __getattr__(name: str) -> Any:
    # Loaded on demand: `fanfold --help` and the server processes need no HTTP client.
    if name in {'Client', 'Job', 'Part', 'Problem'}:
        import fanfold.client

        return getattr(fanfold.client, name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
