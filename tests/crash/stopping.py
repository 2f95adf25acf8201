"""Run a real worker or assembler that freezes itself at one named point, once.

    python -m tests.crash.stopping POINT MARKER worker|assembler

Reaching the point writes the process id to the file MARKER and stops the whole process (SIGSTOP), leases
and all. The test then kills it, or lets others finish and wakes it up as a zombie. The program is the shipped
one; only the call at the point is wrapped.
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fanfold.stack.spawn import die_with_parent
from runtime.logs import configure_logs
from runtime.settings import load_settings


def always(*_: Any, **__: Any) -> bool:
    return True


def kind_is(kind: str) -> Callable[..., bool]:
    """The wrapped method's first argument is a Held part, or it returned a claimed one, of this kind."""

    def matches(result: Any, /, *args: Any, **_: Any) -> bool:
        claimed = result if hasattr(result, 'lease_epoch') else getattr(args[1], 'claimed', None)
        return claimed is not None and claimed.kind == kind

    return matches


def found_some(result: Any, /, *_: Any, **__: Any) -> bool:
    return bool(result)


def result_object(_: Any, __: Any, key: str, /, *___: Any, **____: Any) -> bool:
    return '/result/' in key


#: name → (module, attribute path, when: (result, *args) → bool). The process stops *after* that call.
POINTS: dict[str, tuple[str, str, Callable[..., bool]]] = {
    'plan-claimed': ('worker.holding', 'Holder._claim', kind_is('plan')),
    'plan-completed': ('worker.holding', 'Holder.complete', kind_is('plan')),
    'layout-claimed': ('worker.holding', 'Holder._claim', kind_is('layout')),
    'layout-completed': ('worker.holding', 'Holder.complete', kind_is('layout')),
    'window-uploaded': ('renderer.windows', 'store_part', always),
    'paint-claimed': ('worker.holding', 'Holder._claim', kind_is('paint')),
    'paint-forked': ('worker.zygote', 'Zygote.start', always),
    'paint-uploaded': ('renderer.worker', 'store_part', always),
    'paint-completed': ('worker.holding', 'Holder.complete', kind_is('paint')),
    'hint-sent': ('assembler.dispatcher', 'send_hint', always),
    'event-claimed': ('schema', 'claim_events', found_some),
    'advance-begun': ('schema', 'begin_advance', found_some),
    'batch-created': ('schema', 'create_batch', always),
    'assemble-claimed': ('worker.holding', 'Holder._claim', kind_is('assemble')),
    'merge-forked': ('worker.zygote', 'Zygote.start', always),
    'result-uploaded': ('runtime.storage', 'Storage.put_new', result_object),
    'assemble-completed': ('worker.holding', 'Holder.complete', kind_is('assemble')),
    'job-completed': ('schema', 'complete_job', always),
}


def arm(point: str, marker: Path) -> None:
    """Wrap the call at the point."""
    module_name, path, when = POINTS[point]
    owner: Any = importlib.import_module(module_name)
    *parents, name = path.split('.')
    for parent in parents:
        owner = getattr(owner, parent)
    real = getattr(owner, name)

    @functools.wraps(real)
    def stopping(*args: Any, **kwargs: Any) -> Any:
        result = real(*args, **kwargs)
        if not marker.exists() and when(result, *args, **kwargs):
            unfinished = marker.with_suffix('.tmp')
            unfinished.write_text(str(os.getpid()))
            unfinished.rename(marker)
            os.kill(os.getpid(), signal.SIGSTOP)
        return result

    setattr(owner, name, stopping)


def main() -> None:
    point, marker, program = sys.argv[1:]
    die_with_parent(signal.SIGKILL)
    settings = load_settings()
    configure_logs(settings, process=program)
    if program == 'worker':
        from renderer.worker import run_worker as run
    else:
        from assembler.service import run_assembler as run
    arm(point, Path(marker))
    run(settings)


if __name__ == '__main__':
    main()
