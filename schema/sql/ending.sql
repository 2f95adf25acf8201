-- name: end_running_batch
-- Ends whatever batch of a locked job is running. Its pending parts are thereby cancelled; nobody writes them.
UPDATE batch
SET status = %(status)s, completed_at = coalesce(%(now)s::timestamptz, clock_timestamp())
WHERE job_id = %(job_id)s AND status = 'running';

-- name: reopen_job
-- Starts a failed job's next run, with a fresh deadline.
UPDATE job
SET status = 'rendering', run = run + 1, failure = NULL, finished_at = NULL, expires_at = NULL,
    deadline_at = coalesce(%(now)s::timestamptz, clock_timestamp()) + time_limit
WHERE id = %(job_id)s AND status = 'failed'
RETURNING run;

-- name: last_batch
-- A job's latest batch, and how many of its parts are not completed.
SELECT batch_no, kind, (
    SELECT count(*) FROM part
    WHERE part.job_id = batch.job_id AND part.batch_no = batch.batch_no AND part.status <> 'completed'
) AS unfinished
FROM batch
WHERE job_id = %(job_id)s
ORDER BY batch_no DESC
LIMIT 1;

-- name: copy_unfinished_parts
-- Gives a new batch the uncompleted parts of an earlier one under their own indexes, with fresh budgets.
INSERT INTO part (job_id, batch_no, part_index, generation, spec, next_attempt_at)
SELECT job_id, %(batch_no)s, part_index, generation, spec, coalesce(%(now)s::timestamptz, clock_timestamp())
FROM part
WHERE job_id = %(job_id)s AND batch_no = %(earlier)s AND status <> 'completed';

-- name: expire_job
-- Expires one ended job now.
UPDATE job SET status = 'expired', expires_at = coalesce(%(now)s::timestamptz, clock_timestamp())
WHERE id = %(job_id)s AND status IN ('completed', 'failed', 'cancelled');

-- name: expire_jobs
-- Expires ended jobs whose time has come.
UPDATE job SET status = 'expired', expires_at = coalesce(%(now)s::timestamptz, clock_timestamp())
WHERE id IN (
    SELECT id FROM job
    WHERE status IN ('completed', 'failed', 'cancelled')
        AND expires_at <= (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()))
    ORDER BY expires_at
    LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED
)
RETURNING id;

-- name: overdue_jobs
-- Locks unfinished jobs that are past their deadline.
SELECT id FROM job
WHERE status IN ('queued', 'rendering', 'assembling')
    AND deadline_at <= (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()))
ORDER BY deadline_at
LIMIT %(limit)s
FOR NO KEY UPDATE SKIP LOCKED;

-- name: unfinished_work
-- A job's running batch, and the first of its pending parts with its last failure.
SELECT batch.kind, batch.total, batch.remaining, part.part_index, part.lease_epoch > 0 AS begun, part.failure
FROM batch LEFT JOIN LATERAL (
    SELECT part_index, lease_epoch, failure FROM part
    WHERE part.job_id = batch.job_id AND part.batch_no = batch.batch_no AND part.status = 'pending'
    ORDER BY part_index
    LIMIT 1
) AS part ON true
WHERE batch.job_id = %(job_id)s AND batch.status = 'running';

-- name: prune_jobs
-- Removes the rows of jobs that expired long ago.
DELETE FROM job
WHERE id IN (
    SELECT id FROM job
    WHERE status = 'expired'
        AND expires_at <= (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) - %(older_than)s)
    ORDER BY expires_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
);
