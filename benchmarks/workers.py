"""1,000 invoices through the whole service: one worker with one thread, two of them, and one plain process.

    python -m benchmarks.workers [--records 1000] [--rounds 2]

`serial` is one process that calls `HTML(…).write_pdf()` for each record and merges with pypdf. The three take turns,
as many rounds as asked for; the ratios are of the medians of wall seconds, from the POST to the last byte.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.invoices import SAMPLE, Case, Serial, invoice_records, invoice_template, make_case
from benchmarks.stack import ROOT, running_stack
from fanfold.client import Client


@contextmanager
def another_worker(environment: dict[str, str], folder: Path) -> Iterator[None]:
    """A second worker of the same stack, as an operator would start it."""
    command = [sys.executable, '-m', 'fanfold', 'worker', '--threads', '1']
    log = (folder / 'second-worker.log').open('wb')
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment}, stdout=log, stderr=log)
    try:
        while b'worker ready' not in (folder / 'second-worker.log').read_bytes():
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(timeout=60)
        log.close()


def through_service(client: Client, records: int) -> tuple[float, int]:
    """(seconds from the POST to the last byte, how many workers painted)."""
    lines = '\n'.join(map(json.dumps, invoice_records(records))).encode()
    files: dict[str, Path | bytes] = {path.name: path for path in SAMPLE.iterdir()}
    files |= {'records.ndjson': lines, 'invoice.html': invoice_template((SAMPLE / 'invoice.html').read_text()).encode()}
    began = time.perf_counter()
    job = client.submit([{'template_file': 'invoice.html', 'records_file': 'records.ndjson'}], files=files)
    job = client.wait(job)
    client.download(job, io.BytesIO())
    seconds = time.perf_counter() - began
    owners = {part.owner for part in client.parts(job) if part.kind == 'paint'}
    assert job.pages == records, job
    return seconds, len(owners)


def serial(case: Case, folder: Path) -> float:
    began = time.perf_counter()
    plain = Serial(case)
    plain.work({'first_item': 0, 'item_count': len(case.records)})
    plain.finish(folder / 'serial.pdf')
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or '').splitlines()[0])
    parser.add_argument('--records', type=int, default=1_000)
    parser.add_argument('--rounds', type=int, default=2)
    options = parser.parse_args()
    spent: dict[str, list[float]] = {'serial': [], 'one worker': [], 'two workers': []}
    painted_by: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory() as name,
        running_stack('--workers', '1', '--threads', '1') as ready,
        Client(ready['api_url'], timeout=600) as client,
    ):
        folder = Path(name)
        case = make_case(folder, options.records)
        through_service(client, 25)
        for _ in range(options.rounds):
            spent['serial'].append(serial(case, folder))
            seconds, painted_by['one worker'] = through_service(client, options.records)
            spent['one worker'].append(seconds)
            with another_worker(ready['environment'], folder):
                seconds, painted_by['two workers'] = through_service(client, options.records)
                spent['two workers'].append(seconds)
    medians = {kind: statistics.median(seconds) for kind, seconds in spent.items()}
    print('| | seconds | documents/s | against serial | against one worker | painted by |\n|---|---|---|---|---|---|')
    for kind, seconds in medians.items():
        print(
            f'| {kind} | {seconds:.1f} | {options.records / seconds:.1f} | {medians["serial"] / seconds:.2f} × '
            f'| {medians["one worker"] / seconds:.2f} × | {painted_by.get(kind, "—")} |'
        )


if __name__ == '__main__':
    main()
