-- name: move_job
-- Moves an unfinished job to the status of its next batch. It writes even when the status stays: whoever
-- waits for the job's lock at a stricter isolation level must notice that the job has a new batch.
UPDATE job SET status = %(status)s, plan = coalesce(%(plan)s::jsonb, plan)
WHERE id = %(job_id)s AND status IN ('queued', 'rendering', 'assembling');

-- name: insert_batch
-- Creates the next batch of a job; one of zero parts is completed there and then.
INSERT INTO batch (job_id, batch_no, kind, status, total, remaining, created_at, completed_at)
SELECT
    %(job_id)s,
    (SELECT coalesce(max(batch_no) + 1, 0) FROM batch WHERE job_id = %(job_id)s),
    %(kind)s,
    CASE WHEN %(total)s::integer = 0 THEN 'completed' ELSE 'running' END,
    %(total)s::integer,
    %(total)s::integer,
    clock.now,
    CASE WHEN %(total)s::integer = 0 THEN clock.now END
FROM (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) AS clock
RETURNING batch_no;

-- name: insert_parts
-- Creates all parts of a new batch, due at once.
INSERT INTO part (job_id, batch_no, part_index, generation, spec, next_attempt_at)
SELECT %(job_id)s, %(batch_no)s, new.part_index, new.generation, new.spec, clock.now
FROM jsonb_to_recordset(%(parts)s) AS new (part_index integer, generation integer, spec jsonb),
    (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) AS clock;

-- name: finish_batch
-- Completes a running batch that waits for nothing more.
UPDATE batch
SET status = 'completed', completed_at = coalesce(%(now)s::timestamptz, clock_timestamp())
WHERE job_id = %(job_id)s AND batch_no = %(batch_no)s
    AND status = 'running'
    AND remaining = 0
RETURNING kind;

-- name: parts_of_batch
-- The parts of one batch that have a certain status, in order.
SELECT
    part.job_id, part.batch_no, part.part_index, batch.kind, part.status, part.generation, part.spec, part.input_hash,
    part.attempts, part.losses, part.next_attempt_at, part.lease_owner, part.lease_epoch, part.lease_expires_at,
    part.dispatched_at, part.result, part.result_ref, part.result_sha256, part.pages, part.failure, part.completed_at
FROM part JOIN batch USING (job_id, batch_no)
WHERE part.job_id = %(job_id)s AND part.batch_no = %(batch_no)s AND part.status = %(status)s
ORDER BY part.part_index;

-- name: painted_parts
-- Per index the completed paint part of the highest batch, in order.
SELECT DISTINCT ON (part.part_index)
    part.job_id, part.batch_no, part.part_index, batch.kind, part.status, part.generation, part.spec, part.input_hash,
    part.attempts, part.losses, part.next_attempt_at, part.lease_owner, part.lease_epoch, part.lease_expires_at,
    part.dispatched_at, part.result, part.result_ref, part.result_sha256, part.pages, part.failure, part.completed_at
FROM batch JOIN part USING (job_id, batch_no)
WHERE batch.job_id = %(job_id)s AND batch.kind = 'paint' AND part.status = 'completed'
ORDER BY part.part_index, part.batch_no DESC;

-- name: failed_parts
-- Per index that has no completed paint part, the failed one of the highest batch, in order.
SELECT * FROM (
    SELECT DISTINCT ON (part.part_index)
        part.job_id, part.batch_no, part.part_index, batch.kind, part.status, part.generation, part.spec, part.input_hash,
        part.attempts, part.losses, part.next_attempt_at, part.lease_owner, part.lease_epoch, part.lease_expires_at,
        part.dispatched_at, part.result, part.result_ref, part.result_sha256, part.pages, part.failure, part.completed_at
    FROM batch JOIN part USING (job_id, batch_no)
    WHERE batch.job_id = %(job_id)s AND batch.kind = 'paint'
    ORDER BY part.part_index, (part.status = 'completed') DESC, part.batch_no DESC
) AS latest
WHERE status = 'failed'
ORDER BY part_index;

-- name: painting_outcomes
-- Per index what painting came to: the completed part of the highest batch, else the failed one; results only as counts.
SELECT
    part_index, generation, spec, status = 'completed' AS completed,
    CASE WHEN jsonb_typeof(result -> 'items') = 'array' THEN jsonb_array_length(result -> 'items') ELSE 0 END AS items,
    CASE WHEN jsonb_typeof(result -> 'missing') = 'array' THEN jsonb_array_length(result -> 'missing') ELSE 0 END
        AS missing,
    result -> 'missing' -> 0 AS first_missing,
    CASE WHEN status = 'failed' THEN failure END AS failure
FROM (
    SELECT DISTINCT ON (part.part_index)
        part.part_index, part.generation, part.spec, part.status, part.result, part.failure
    FROM batch JOIN part USING (job_id, batch_no)
    WHERE batch.job_id = %(job_id)s AND batch.kind = 'paint'
    ORDER BY part.part_index, (part.status = 'completed') DESC, part.batch_no DESC
) AS latest
WHERE status IN ('completed', 'failed')
ORDER BY part_index;

-- name: planned
-- What the plan of a job came to: the result of its completed part; with the plan as clients see it now.
SELECT part.result, job.plan
FROM job JOIN batch ON batch.job_id = job.id JOIN part USING (job_id, batch_no)
WHERE job.id = %(job_id)s AND batch.kind = 'plan' AND part.status = 'completed'
ORDER BY batch_no DESC
LIMIT 1;

-- name: laid_out_parts
-- Per window the completed layout part of the highest batch, in order.
SELECT DISTINCT ON (part.part_index) part.part_index, part.spec, part.result
FROM batch JOIN part USING (job_id, batch_no)
WHERE batch.job_id = %(job_id)s AND batch.kind = 'layout' AND part.status = 'completed'
ORDER BY part.part_index, part.batch_no DESC;

-- name: list_batches
-- A job's batches, in order.
SELECT batch_no, kind, status, total, remaining, created_at, completed_at
FROM batch
WHERE job_id = %(job_id)s
ORDER BY batch_no;

-- name: complete_job
-- Records an unfinished job's one result.
UPDATE job
SET status = 'completed',
    page_count = %(page_count)s,
    result_key = %(result_key)s,
    result_sha256 = %(result_sha256)s,
    result_bytes = %(result_bytes)s,
    result = %(result)s,
    finished_at = clock.now,
    expires_at = clock.now + keep_for
FROM (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) AS clock
WHERE id = %(job_id)s AND status IN ('rendering', 'assembling');
