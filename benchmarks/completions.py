"""One batch of 5,000 parts that do nothing: how many completions a second, and how long they wait for locks.

    python -m benchmarks.completions [--parts 5000] [--workers 1,2,4,8,16]

Needs FANFOLD_BENCHMARK_DATABASE_URL, or starts a PostgreSQL of its own. Each worker is a process that claims
and completes parts by index, as fast as it can: the worst case for the one batch row that all of them update.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from datetime import timedelta
from typing import Any
from uuid import UUID

import uuid6

import schema
from benchmarks.stack import database


def prepare(pool: schema.Pool, parts: int) -> UUID:
    """A job whose plan is done and whose paint batch waits."""
    job_id = UUID(str(uuid6.uuid7()))
    new = schema.NewJob(id=job_id, spec={}, time_limit=timedelta(hours=1), keep_for=timedelta(hours=1))
    schema.transact(pool, schema.create_job, new, schema.NewPart(part_index=0))
    plan = schema.PartKey(job_id=job_id, batch_no=0, part_index=0)
    schema.transact(pool, schema.claim_part, plan, owner='benchmark', lease=timedelta(minutes=5))
    schema.transact(pool, schema.complete_part, plan, input_hash='x', result={}, result_ref=None, result_sha256=None)
    schema.transact(
        pool,
        schema.create_batch,
        job_id,
        'paint',
        [schema.NewPart(part_index=index) for index in range(parts)],
        'rendering',
    )
    return job_id


def complete_share(url: str, job_id: UUID, indexes: range, start: Any, results: Any) -> None:
    """Claim and complete these parts; report how many completions were the last."""
    last = 0
    with schema.open_pool(url, max_size=1, name='benchmark') as pool:
        pool.wait()
        start.wait()
        for index in indexes:
            key = schema.PartKey(job_id=job_id, batch_no=1, part_index=index)
            schema.transact(pool, schema.claim_part, key, owner='benchmark', lease=timedelta(minutes=5))
            outcome = schema.transact(
                pool,
                schema.complete_part,
                key,
                input_hash='x',
                result={'pages': 1},
                result_ref=f'p/{index}',
                result_sha256='0',
            )
            last += outcome is schema.Completion.LAST
    results.put(last)


def lock_waits(pool: schema.Pool) -> tuple[int, int]:
    """(backends waiting for a lock, backends at work) at this moment."""
    with pool.connection() as conn:
        row = conn.execute(
            "SELECT count(*) FILTER (WHERE wait_event_type = 'Lock'), count(*) FILTER (WHERE state = 'active')"
            " FROM pg_stat_activity WHERE application_name LIKE '%benchmark%' AND pid <> pg_backend_pid()"
        ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def measure(url: str, pool: schema.Pool, parts: int, workers: int) -> tuple[float, float, int]:
    """(completions a second, share of busy backends that waited for a lock, completions that were the last)."""
    job_id = prepare(pool, parts)
    context = multiprocessing.get_context('spawn')
    start, results = context.Barrier(workers + 1), context.Queue()
    shares = [range(number, parts, workers) for number in range(workers)]
    processes = [context.Process(target=complete_share, args=(url, job_id, share, start, results)) for share in shares]
    for process in processes:
        process.start()
    start.wait()
    began = time.perf_counter()
    waiting = busy = 0
    while any(process.is_alive() for process in processes) and results.qsize() < workers:
        sampled = lock_waits(pool)
        waiting, busy = waiting + sampled[0], busy + sampled[1]
        time.sleep(0.02)
    seconds = time.perf_counter() - began
    last = sum(results.get() for _ in processes)
    for process in processes:
        process.join()
    return parts / seconds, waiting / max(1, busy + waiting), last


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or '').splitlines()[0])
    parser.add_argument('--parts', type=int, default=5_000)
    parser.add_argument('--workers', default='1,2,4,8,16')
    arguments = parser.parse_args()
    with database() as url, schema.open_pool(url, max_size=2, name='observer') as pool:
        print('| workers | completions/s | against one worker | sampled backends waiting for a lock | last |')
        print('|---|---|---|---|---|')
        first = None
        for workers in map(int, arguments.workers.split(',')):
            rate, waiting, last = measure(url, pool, arguments.parts, workers)
            first = first or rate
            print(f'| {workers} | {rate:.0f} | {rate / first:.2f} × | {waiting:.0%} | {last} |', flush=True)


if __name__ == '__main__':
    main()
