"""Invoices: records poured into one template, against one process that renders and merges them one by one.

    python -m benchmarks.invoices [--records 1000] [--sample 40]

Both do all of the work: fill the template, render, merge. `serial` calls `HTML(…).write_pdf()` for each record and
merges with pypdf; `runs` paints runs of 25 records as a worker's child does and merges those as the assembler
does. They take turns on one core, so that a busy machine slows down both; then the pages of a sample are compared.
The last row paints the same runs with as many children at a time as there are cores.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import multiprocessing
import os
import random
import resource
import tempfile
import time
import zipfile
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pypdf
import pypdfium2
from weasyprint import HTML

from assembler.assemble import assemble
from renderer import weasy
from renderer.archive import Archive
from renderer.paint import Painting
from renderer.runs import plan_runs
from renderer.sources import JobSpec
from renderer.templates import Template
from runtime.settings import usable_cores
from worker.outcomes import Done
from worker.requests import RenderRequest
from worker.zygote import Zygote

SAMPLE = Path(__file__).resolve().parent.parent.parent / 'shared/corpus/samples/invoice'
FIRST_NAMES = ('Ada', 'Grace', 'Linus', 'Ken', 'Barbara', 'Donald', 'Edsger', 'Alan', 'Margaret', 'Hedy', 'Tim', 'Zoë')
LAST_NAMES = ('Lovelace', 'Hopper', 'Torvalds', 'Thompson', 'Liskov', 'Knuth', 'Dijkstra', 'Turing', 'Hamilton')
WORK = ('design', 'development', 'integration', 'hosting', 'support', 'training', 'review', 'migration', 'testing')


def invoice_template(html: str) -> str:
    """The sample as a template: number, customer, lines and total come from the record."""
    head, _, rest = html.partition('<tbody>')
    _, _, tail = rest.partition('</tbody>')
    cells = ('{{ line.what }}', '€{{ line.price }}', '{{ line.quantity }}', '€{{ line.sum }}')
    row = '<tr>' + ''.join(f'<td>{cell}</td>' for cell in cells) + '</tr>'
    lines = '<tbody>{% for line in lines %}' + row + '{% endfor %}</tbody>'
    return (
        (head + lines + tail)
        .replace('12345', '{{ number }}')
        .replace('Our awesome developers', '{{ customer }}')
        .replace('€10,545.00', '€{{ total }}')
    )


def invoice_records(count: int) -> list[dict[str, Any]]:
    chosen = random.Random(1)
    records = []
    for index in range(count):
        lines = []
        for _ in range(chosen.randint(2, 5)):
            price, quantity = chosen.randint(1_000, 9_999), chosen.randint(1, 100)
            lines.append({
                'what': f'Website {chosen.choice(WORK)}', 'price': f'{price / 100:.2f}', 'quantity': quantity,
                'sum': f'{price * quantity / 100:,.2f}',
            })  # fmt: skip
        customer = f'{chosen.choice(FIRST_NAMES)} {chosen.choice(LAST_NAMES)}'
        total = f'{chosen.randint(1_000, 99_999):,}.00'
        records.append({'number': 10_000 + index, 'customer': customer, 'lines': lines, 'total': total})
    return records


@dataclass(kw_only=True)
class Case:
    """The job, as an archive for the runs and as a folder for plain WeasyPrint."""

    archive: Path
    spec: dict[str, Any]
    template: str
    folder: Path
    records: list[dict[str, Any]]

    def filled(self) -> Iterator[str]:
        """The HTML of each record."""
        with Archive(self.archive) as archive:
            template = Template(self.template, 'template.html', archive)
        for index, record in enumerate(self.records):
            yield template.fill(record, index)


def make_case(folder: Path, count: int) -> Case:
    template = invoice_template((SAMPLE / 'invoice.html').read_text())
    records = invoice_records(count)
    archive = folder / 'input.zip'
    with zipfile.ZipFile(archive, 'w') as file:
        for path in SAMPLE.iterdir():
            file.write(path, f'files/{path.name}')
        file.writestr('inline/0.template.html', template)
        file.writestr('inline/0.records.ndjson', '\n'.join(json.dumps(record) for record in records))
    document = {
        'kind': 'template', 'source': 'inline/0.template.html', 'base_url': 'bundle:///',
        'records': 'inline/0.records.ndjson', 'record_count': count,
    }  # fmt: skip
    spec = {'documents': [document], 'options': {}, 'input': {'key': 'x', 'sha256': '0', 'bytes': 0}}
    return Case(archive=archive, spec=spec, template=template, folder=SAMPLE, records=records)


class Serial:
    """One record after the other."""

    def __init__(self, case: Case) -> None:
        self._case = case
        with Archive(case.archive) as archive:
            self._template = Template(case.template, 'template.html', archive)
        self._writer = pypdf.PdfWriter()

    def work(self, part: dict[str, int]) -> None:
        for index in range(part['first_item'], part['first_item'] + part['item_count']):
            html = self._template.fill(self._case.records[index], index)
            self._writer.append(io.BytesIO(HTML(string=html, base_url=f'{self._case.folder}/').write_pdf()))

    def finish(self, out: Path) -> None:
        self._writer.write(out)


class Runs:
    """Runs of records, as children of a worker paint them."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._job = JobSpec.from_json(case.spec)
        self._folder = Path(tempfile.mkdtemp(dir=case.archive.parent))
        self.paths: list[Path] = []
        weasy.tune()
        weasy.warm()

    def work(self, part: dict[str, int]) -> None:
        self.paths.append(self._folder / f'{len(self.paths)}.bundle')
        with Archive(self._case.archive) as archive:
            Painting(archive, self._job, part=part).paint(self.paths[-1], report=lambda _: None)

    def finish(self, out: Path) -> None:
        out.write_bytes(b''.join(assemble(self.paths)))


def serve(kind: type[Serial | Runs], case: Case, pipe: Connection) -> None:
    """A process that works on request and says what it took: (wall, CPU) seconds."""
    worker = kind(case)
    pipe.send('ready')
    for request in iter(pipe.recv, None):
        wall, cpu = time.perf_counter(), time.process_time()
        if isinstance(request, Path):
            worker.finish(request)
        else:
            worker.work(request)
        pipe.send((time.perf_counter() - wall, time.process_time() - cpu))


def take_turns(case: Case, folder: Path) -> Iterator[tuple[str, float, float]]:
    """(name, wall, CPU) of all work, merge included; both on the same core, a run of records in turn."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    context = multiprocessing.get_context('spawn')
    pipes = {}
    for kind in (Serial, Runs):
        pipes[kind.__name__.lower()], theirs = context.Pipe()
        context.Process(target=serve, args=(kind, case, theirs), daemon=True).start()
    spent = {name: [0.0, 0.0] for name in pipes}
    for pipe in pipes.values():
        pipe.recv()
    for request in [*plan_runs(case.spec), None]:
        for name, pipe in pipes.items():
            pipe.send(folder / f'{name}.pdf' if request is None else request)
            wall, cpu = pipe.recv()
            spent[name][0] += wall
            spent[name][1] += cpu
    for pipe in pipes.values():
        pipe.send(None)
    yield from ((name, wall, cpu) for name, (wall, cpu) in spent.items())


def in_children(case: Case, folder: Path, children: int) -> tuple[float, float]:
    """Wall and CPU seconds of painting in children, so many children at a time, and merging."""
    zygote = Zygote(scratch=folder / 'zygote', preload='renderer.paint:preload')
    zygote.warmed  # noqa: B018 wait until it is warm
    wall, cpu = time.perf_counter(), time.process_time()
    waiting = deque(enumerate(plan_runs(case.spec)))
    running: deque[Any] = deque()
    used, paths = 0.0, []
    while waiting or running:
        while waiting and len(running) < children:
            index, part = waiting.popleft()
            paths.append(folder / f'part-{index}.bundle')
            request = RenderRequest(
                archive=case.archive, spec=case.spec, part=part, output=paths[-1], placeholders=False,
                memory_bytes=2**30, cpu_seconds=600, wall_seconds=600,
            )  # fmt: skip
            running.append(zygote.start(request))
        outcome = running.popleft().wait()
        assert isinstance(outcome, Done), outcome
        used += outcome.result['timing']['cpu_seconds']
    (folder / 'children.pdf').write_bytes(b''.join(assemble(paths)))
    spent = time.perf_counter() - wall, used + time.process_time() - cpu
    zygote.close()
    return spent


def pages_differ(one: Path, other: Path, sample: list[int]) -> list[int]:
    """The pages of the sample that do not look the same or do not say the same."""
    files = [pypdfium2.PdfDocument(path) for path in (one, other)]
    seen = [[(look(file, index)) for index in sample] for file in files]
    counts = [len(file) for file in files]
    for file in files:
        file.close()
    if counts[0] != counts[1]:
        raise SystemExit(f'{counts[0]} pages against {counts[1]}')
    return [index for index, first, second in zip(sample, *seen, strict=True) if first != second]


def look(file: Any, index: int) -> tuple[str, str]:
    page = file[index]
    text = page.get_textpage()
    found = text.get_text_range(), hashlib.sha256(bytes(page.render(scale=2).buffer)).hexdigest()
    text.close()
    page.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or '').splitlines()[0])
    parser.add_argument('--records', type=int, default=1_000)
    parser.add_argument('--sample', type=int, default=40)
    options = parser.parse_args()
    if not SAMPLE.is_dir():
        raise SystemExit(f'the invoice sample is not there: {SAMPLE}')
    count, cores = options.records, usable_cores()
    affinity = os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        case = make_case(folder, count)
        spent = {kind: (wall, cpu) for kind, wall, cpu in take_turns(case, folder)}
        os.sched_setaffinity(0, affinity)
        spent[f'runs in {cores} children'] = in_children(case, folder, cores)
        base = spent['serial']
        print('| | documents/s, wall | CPU | ratio, wall | CPU | size |\n|---|---|---|---|---|---|')
        for (kind, (wall, cpu)), file in zip(spent.items(), ('serial', 'runs', 'children'), strict=True):
            size = (folder / f'{file}.pdf').stat().st_size / 1e6
            print(
                f'| {kind} | {count / wall:.1f} | {count / cpu:.1f} | {base[0] / wall:.2f} | {base[1] / cpu:.2f} '
                f'| {size:.1f} MB |'
            )
        sample = sorted(random.Random(2).sample(range(count), min(options.sample, count)))
        for file in ('runs', 'children'):
            different = pages_differ(folder / 'serial.pdf', folder / f'{file}.pdf', sample)
            print(f'{file}: {len(sample) - len(different)} of {len(sample)} pages are the same', different or '')
        print(f'peak memory of a process here: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024} MiB')


if __name__ == '__main__':
    main()
