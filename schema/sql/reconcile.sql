-- name: expired_leases
-- Held parts of running batches whose lease is over.
SELECT part.job_id, part.batch_no, part.part_index, part.lease_epoch, part.lease_owner, part.losses
FROM batch JOIN part USING (job_id, batch_no)
WHERE batch.status = 'running'
    AND part.status = 'pending' AND part.dispatched_at IS NOT NULL
    AND part.lease_expires_at <= (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()))
ORDER BY part.job_id, part.batch_no, part.part_index
LIMIT %(limit)s;

-- name: lock_expired_part
-- Locks a part if its lease is still over.
SELECT part_index FROM part
WHERE job_id = %(job_id)s AND batch_no = %(batch_no)s AND part_index = %(part_index)s
    AND lease_expires_at <= coalesce(%(now)s::timestamptz, clock_timestamp())
FOR NO KEY UPDATE;

-- name: drifted_batches
-- Running batches that seem to wait for another number of parts than are pending, or for none.
SELECT batch.job_id, batch.batch_no
FROM batch CROSS JOIN LATERAL (
    SELECT count(*) AS pending FROM part
    WHERE part.job_id = batch.job_id AND part.batch_no = batch.batch_no AND part.status = 'pending'
) AS counted
WHERE batch.status = 'running' AND (batch.remaining <> counted.pending OR counted.pending = 0)
ORDER BY batch.job_id
LIMIT %(limit)s;

-- name: lock_batch
-- Locks a running batch and gives what it waits for.
SELECT remaining FROM batch
WHERE job_id = %(job_id)s AND batch_no = %(batch_no)s AND status = 'running'
FOR NO KEY UPDATE;

-- name: recount_batch
-- Sets what a locked batch waits for to its pending parts.
UPDATE batch
SET remaining = (
    SELECT count(*) FROM part
    WHERE part.job_id = batch.job_id AND part.batch_no = batch.batch_no AND part.status = 'pending'
)
WHERE job_id = %(job_id)s AND batch_no = %(batch_no)s
RETURNING remaining;

-- name: stuck_jobs
-- Unfinished jobs that nothing will move: no running batch and no waiting event, for a while already.
SELECT job.id
FROM job, LATERAL (
    SELECT max(batch.completed_at) AS last_end, bool_or(batch.status = 'running') AS running
    FROM batch WHERE batch.job_id = job.id
) AS batches
WHERE job.status IN ('queued', 'rendering', 'assembling')
    AND batches.running IS NOT TRUE
    AND coalesce(batches.last_end, job.created_at)
        <= coalesce(%(now)s::timestamptz, clock_timestamp()) - %(older_than)s
    AND NOT EXISTS (
        SELECT FROM outbox WHERE outbox.job_id = job.id AND outbox.sent_at IS NULL AND outbox.parked_at IS NULL
    )
ORDER BY job.id;

-- name: dispositions
-- What may be done with the objects of these jobs, graces observed; jobs without a row are not among them.
SELECT
    id,
    CASE
        WHEN status IN ('queued', 'rendering', 'assembling', 'failed') THEN 'keep'
        WHEN coalesce(CASE WHEN status = 'expired' THEN expires_at END, finished_at)
            > coalesce(%(now)s::timestamptz, clock_timestamp()) - %(grace)s THEN 'keep'
        WHEN status = 'completed' THEN 'only result'
        ELSE 'delete'
    END AS fate,
    result_key
FROM job
WHERE id = ANY (%(job_ids)s);
