"""A one-page job through a warm stack, against the same page rendered in-process, interleaved in one run.

    python -m benchmarks.one_page [--rounds 40]

End to end is from the POST to the last byte of the PDF, following the job's events.
"""

from __future__ import annotations

import argparse
import io
import statistics
import time

from weasyprint import HTML

from benchmarks.stack import running_stack
from fanfold.client import Client

PAGE = (
    '<!DOCTYPE html><html lang="en"><head><title>One page</title><style>@page{size:A4;margin:2cm}'
    'body{font:11pt "DejaVu Serif"}</style></head><body><h1>One page</h1>'
    + '<p>'
    + 'lorem ipsum dolor ' * 120
    + '</p></body></html>'
)


def in_process() -> float:
    began = time.perf_counter()
    HTML(string=PAGE).write_pdf()
    return time.perf_counter() - began


def end_to_end(client: Client) -> float:
    began = time.perf_counter()
    job = client.wait(client.submit([{'html': PAGE}]))
    client.download(job, io.BytesIO())
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or '').splitlines()[0])
    parser.add_argument('--rounds', type=int, default=40)
    rounds = parser.parse_args().rounds
    with running_stack() as ready, Client(ready['api_url']) as client:
        for _ in range(5):
            in_process(), end_to_end(client)
        pairs = [(in_process(), end_to_end(client)) for _ in range(rounds)]
    own, through = zip(*pairs, strict=True)
    added = [(there - here) * 1000 for here, there in pairs]
    print('| | median | 90th percentile |\n|---|---|---|')
    for name, values in (('in-process WeasyPrint', own), ('through the service', through)):
        milliseconds = sorted(value * 1000 for value in values)
        print(f'| {name} | {statistics.median(milliseconds):.0f} ms | {milliseconds[int(rounds * 0.9)]:.0f} ms |')
    name = 'difference (target: at most 150 ms)'
    print(f'| {name} | {statistics.median(added):.0f} ms | {sorted(added)[int(rounds * 0.9)]:.0f} ms |')


if __name__ == '__main__':
    main()
