"""A stack of the benchmark's own: `fanfold up` in a temporary folder, stopped at the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


@contextmanager
def running_stack(*options: str, env: dict[str, str] | None = None) -> Iterator[dict[str, Any]]:
    """What the stack's ready file says (URLs, keys, process ids), while it runs."""
    with tempfile.TemporaryDirectory(prefix='fanfold-benchmark-') as folder:
        data = Path(folder)
        data.chmod(0o755)  # the account that the servers run as has to pass
        ready_file = data / 'ready.json'
        command = [sys.executable, '-m', 'fanfold', 'up', '--port', '0', '--stop-with-parent', '--data', folder]
        command += ['--ready-file', str(ready_file), *options]
        with (data / 'log').open('wb') as log:
            stack = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            give_up = time.monotonic() + 120
            while not ready_file.exists():
                if stack.poll() is not None or time.monotonic() > give_up:
                    raise SystemExit(f'the stack does not start:\n{(data / "log").read_text()}')
                time.sleep(0.05)
            yield json.loads(ready_file.read_text())
        finally:
            stack.terminate()
            stack.wait(timeout=60)


@contextmanager
def database() -> Iterator[str]:
    """The URL of a migrated database."""
    import schema

    if url := os.environ.get('FANFOLD_BENCHMARK_DATABASE_URL'):
        schema.migrate(url)
        yield url
        return
    with running_stack('--servers-only') as ready:
        schema.migrate(ready['database_url'])
        yield ready['database_url']
