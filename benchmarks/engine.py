"""One long document: WeasyPrint, one worker, two workers; in CPU, wall and memory.

    python -m benchmarks.engine book.html [--rounds 3] [--workers 2] [--model 192] [--plot docs/engine.svg]

The `weasyprint` command and `fanfold render` with one worker and with several take turns, as many rounds as asked for;
the figures are medians. Before each round two processes that only count measure what a second core is worth
on this machine just then. The critical path is what would take the time were every worker a core to itself: preparing,
the longest worker's share of each round of layout and of painting, assembling; in CPU seconds, which other people's
work on the machine does not change. `--model` renders once more with that many windows, and simulates more workers
from the measured times of the parts.
"""

from __future__ import annotations

import argparse
import heapq
import json
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.plotting import Curve, write_plot

SAMPLING_SECONDS = 0.25
COUNTING_SECONDS = 3.0
MODELLED_WORKERS = (1, 2, 4, 8, 16, 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One process tree from start to end: seconds, and bytes at the peak of the sum of proportional set sizes."""

    wall: float
    cpu: float
    memory: int


def measured(command: Sequence[str]) -> Run:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peaks: list[int] = [0]
    watcher = threading.Thread(target=watch, args=(process, peaks))
    watcher.start()
    process.wait()
    wall = time.perf_counter() - began
    watcher.join()
    if process.returncode:
        raise SystemExit(f'{command} ended with {process.returncode}')
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return Run(wall=wall, cpu=cpu, memory=max(peaks))


def watch(process: subprocess.Popen[bytes], peaks: list[int]) -> None:
    """Note the proportional set sizes of the process and all its descendants, again and again."""
    while process.poll() is None:
        try:
            root = psutil.Process(process.pid)
            peaks.append(sum(pss(found) for found in [root, *root.children(recursive=True)]))
        except psutil.Error:
            pass
        time.sleep(SAMPLING_SECONDS)


def pss(process: psutil.Process) -> int:
    try:
        text = Path(f'/proc/{process.pid}/smaps_rollup').read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith('Pss:')), 0)


def count(until: float, result: Any) -> None:
    number = 0
    while time.perf_counter() < until:
        for _ in range(10_000):
            number += 1
    result.put(number)


def worth_of_a_second_core() -> float:
    """How much more two counting processes count than one."""

    def counted(processes: int) -> int:
        results: Any = multiprocessing.Queue()
        until = time.perf_counter() + COUNTING_SECONDS
        running = [multiprocessing.Process(target=count, args=(until, results)) for _ in range(processes)]
        for process in running:
            process.start()
        total = sum(results.get() for _ in running)
        for process in running:
            process.join()
        return total

    return counted(2) / counted(1)


def makespan(seconds: Sequence[float], workers: int) -> float:
    """When the last of so many workers ends that take the longest piece of work first."""
    ends = [0.0] * workers
    for piece in sorted(seconds, reverse=True):
        heapq.heappush(ends, heapq.heappop(ends) + piece)
    return max(ends)


def critical_path(report: dict[str, Any], workers: int) -> float:
    """CPU seconds with a core for each worker: rounds of layout, then painting, with what is done once around them."""
    parts = report['parts']
    rounds = max(len(part['round_seconds']) for part in parts)
    layout = [
        [part['round_seconds'][turn] for part in parts if turn < len(part['round_seconds'])] for turn in range(rounds)
    ]
    steps = [*layout, [part['paint_seconds'] for part in parts]]
    return once(report) + sum(makespan(step, workers) for step in steps)


def once(report: dict[str, Any]) -> float:
    """CPU seconds that no second worker can share."""
    prepare: float = report['prepare_seconds']
    assemble: float = report['assemble_seconds']
    return prepare + assemble


def rendered(document: Path, folder: Path, *options: str) -> tuple[Run, dict[str, Any]]:
    report = folder / 'report.json'
    command = [sys.executable, '-m', 'fanfold', 'render', str(document), str(folder / 'ours.pdf'), *options]
    run = measured([*command, '--report', str(report)])
    return run, json.loads(report.read_text())


def compare(document: Path, folder: Path, *, rounds: int, workers: int) -> None:
    found: dict[str, list[Run]] = {'weasyprint': [], 'one worker': [], 'workers': []}
    cores, paths = [], []
    weasyprint = [sys.executable, '-m', 'weasyprint', str(document), str(folder / 'serial.pdf')]
    for _ in range(rounds):
        cores.append(worth_of_a_second_core())
        found['weasyprint'].append(measured(weasyprint))
        found['one worker'].append(rendered(document, folder, '--workers', '1')[0])
        run, report = rendered(document, folder, '--workers', str(workers))
        found['workers'].append(run)
        paths.append(critical_path(report, workers))
    median = {
        name: Run(
            wall=statistics.median(run.wall for run in runs),
            cpu=statistics.median(run.cpu for run in runs),
            memory=int(statistics.median(run.memory for run in runs)),
        )
        for name, runs in found.items()
    }
    serial, single, several = median.values()
    print(f'{document.name}: {report["pages"]} pages, {report["windows"]} windows, {report["rounds"]} rounds of layout')
    print(f'{"":24}{"wall s":>8}{"CPU s":>8}{"peak MB":>9}')
    for name, run in median.items():
        shown = f'{workers} workers' if name == 'workers' else name
        print(f'{shown:24}{run.wall:8.1f}{run.cpu:8.1f}{run.memory / 2**20:9.0f}')
    path, core = statistics.median(paths), statistics.median(cores)
    print(f'critical path of {workers} workers: {path:.1f} CPU s, {serial.cpu / path:.2f} × shorter than WeasyPrint')
    print(f'wall against WeasyPrint: {serial.wall / several.wall:.2f} ×')
    gain = single.wall / several.wall
    print(f'wall against one worker: {gain:.2f} ×, {gain / core:.2f} of the {core:.2f} × that two busy loops gain')
    print(f'CPU: {several.cpu / serial.cpu:.2f} of WeasyPrint; peak memory: {several.memory / serial.memory:.2f}')


def model(document: Path, folder: Path, windows: int, plot: Path | None) -> None:
    """What more workers would gain, from the parts' times as measured here."""
    _, report = rendered(document, folder, '--workers', str(os.cpu_count() or 2), '--windows', str(windows))
    total = critical_path(report, 1)
    share = once(report) / total
    print(f'{report["windows"]} windows: {total:.1f} CPU s, of which once {once(report):.2f} s ({share:.1%})')
    simulated = [(workers, total / critical_path(report, workers)) for workers in MODELLED_WORKERS]
    amdahl = [(workers, 1 / (share + (1 - share) / workers)) for workers in MODELLED_WORKERS]
    for (workers, gain), (_, limit) in zip(simulated, amdahl, strict=True):
        print(f'{workers:4} workers: {gain:5.1f} × simulated, {limit:5.1f} × by Amdahl’s law')
    if plot is not None:
        write_plot(
            plot,
            title=f'{document.name}, {report["windows"]} windows: speed-up over one worker',
            curves=[Curve('simulated from measured parts', simulated), Curve('Amdahl’s law', amdahl)],
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('document', type=Path)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--workers', type=int, default=2)
    parser.add_argument('--model', type=int, metavar='WINDOWS', help='also simulate, from so many windows')
    parser.add_argument('--plot', type=Path, help='where to write the simulation as SVG')
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if given.rounds:
            compare(given.document, Path(name), rounds=given.rounds, workers=given.workers)
        if given.model:
            model(given.document, Path(name), given.model, given.plot)


if __name__ == '__main__':
    main()
