"""What is true of the database at any moment, whatever died on the way.

One statement, hence one snapshot: each branch selects what breaks a rule. It takes events that were
not pruned yet, and jobs of which no transaction is half-way.
"""

from __future__ import annotations

from typing import Any

from psycopg import Connection

RULES = {
    'a running batch waits for another number of parts than are pending': """
        SELECT job_id, batch_no FROM batch WHERE status = 'running' AND remaining <> (
            SELECT count(*) FROM part
            WHERE part.job_id = batch.job_id AND part.batch_no = batch.batch_no AND status = 'pending'
        )""",
    'a batch counted another number of parts than ended in it': """
        SELECT batch.job_id, batch_no FROM batch JOIN job ON job.id = batch.job_id
        WHERE total - remaining <> (
            SELECT count(*) FROM part
            WHERE part.job_id = batch.job_id AND part.batch_no = batch.batch_no
                AND (part.status = 'completed' OR part.status = 'failed' AND job.failure_policy = 'partial')
        )""",
    'a batch has another number of parts than its total': """
        SELECT job_id, batch_no FROM batch WHERE total <> (
            SELECT count(*) FROM part WHERE part.job_id = batch.job_id AND part.batch_no = batch.batch_no
        )""",
    'a batch runs in a job that has ended': """
        SELECT job_id, batch_no FROM batch JOIN job ON job.id = batch.job_id
        WHERE batch.status = 'running' AND job.status NOT IN ('queued', 'rendering', 'assembling')""",
    'a batch is cancelled in a job that is not': """
        SELECT job_id, batch_no FROM batch JOIN job ON job.id = batch.job_id
        WHERE batch.status = 'cancelled' AND job.status NOT IN ('cancelled', 'expired')""",
    'the numbers of the batches of a job have a gap': """
        SELECT job_id, max(batch_no) FROM batch GROUP BY job_id HAVING max(batch_no) <> count(*) - 1""",
    'a batch has an event and is not completed, or is completed and has none': """
        SELECT batch.job_id, batch_no FROM batch
        WHERE (status = 'completed') <> EXISTS (
            SELECT FROM outbox WHERE event_key = format('batch-completed:%s:%s', batch.job_id, batch_no)
        )""",
    'a job has a job-completed event and is not completed, or is completed and has none': """
        SELECT id, NULL FROM job
        WHERE status <> 'expired' AND (status = 'completed') <> EXISTS (
            SELECT FROM outbox WHERE event_key = format('job-completed:%s', job.id)
        )""",
    'a job has a job-cancelled event and is not cancelled, or is cancelled and has none': """
        SELECT id, NULL FROM job
        WHERE status <> 'expired' AND (status = 'cancelled') <> EXISTS (
            SELECT FROM outbox WHERE event_key = format('job-cancelled:%s', job.id)
        )""",
    'a job has other job-failed events than one for each failed run': """
        SELECT id, NULL FROM job
        WHERE status <> 'expired' AND array(
            SELECT event_key FROM outbox WHERE outbox.job_id = job.id AND type = 'job-failed'
            ORDER BY (payload ->> 'run')::integer
        ) <> array(
            SELECT format('job-failed:%s:%s', job.id, run_no)
            FROM generate_series(1, CASE WHEN status = 'failed' THEN run ELSE run - 1 END) AS run_no
        )""",
    'an unfinished job has neither a running batch nor a waiting event': """
        SELECT id, NULL FROM job
        WHERE status IN ('queued', 'rendering', 'assembling')
            AND NOT EXISTS (SELECT FROM batch WHERE batch.job_id = job.id AND batch.status = 'running')
            AND NOT EXISTS (SELECT FROM outbox WHERE outbox.job_id = job.id AND sent_at IS NULL)""",
    'a completed job lacks the result of a part': """
        SELECT job.id, part_index FROM job JOIN batch ON batch.job_id = job.id JOIN part USING (job_id, batch_no)
        WHERE job.status = 'completed' AND job.failure_policy = 'fail' AND batch.kind = 'paint'
        GROUP BY job.id, part_index
        HAVING count(*) FILTER (WHERE part.status = 'completed') = 0""",
    'the pages of a completed job are not the sum of the pages of its parts': """
        SELECT id, page_count FROM job CROSS JOIN LATERAL (
            SELECT sum(pages) AS pages, bool_and(pages IS NOT NULL AND status = 'completed') AS known FROM (
                SELECT DISTINCT ON (part_index) part.pages, part.status
                FROM batch JOIN part USING (job_id, batch_no)
                WHERE batch.job_id = job.id AND batch.kind = 'paint'
                ORDER BY part_index, (part.status = 'completed') DESC, batch_no DESC
            ) AS latest
        ) AS painted
        WHERE job.status = 'completed' AND painted.known AND painted.pages <> job.page_count""",
}


def broken_rules(conn: Connection[Any]) -> list[str]:
    branches = [
        f"SELECT '{rule}', job_id, number::bigint FROM ({query}) AS broken (job_id, number)"
        for rule, query in RULES.items()
    ]
    rows = conn.execute('\nUNION ALL\n'.join(branches)).fetchall()
    return [f'{rule}: job {job_id}, {number}' for rule, job_id, number in rows]


def check_invariants(conn: Connection[Any]) -> None:
    """Raise AssertionError naming every rule that the database breaks, and where."""
    broken = broken_rules(conn)
    assert not broken, '\n'.join(broken)
