-- name: insert_job
-- Creates a job, unless its tenant's idempotency key has one: then no row.
INSERT INTO job (
    id, tenant_id, spec, idempotency_key, fingerprint, failure_policy, time_limit, keep_for, created_at, deadline_at
)
SELECT
    %(id)s, %(tenant_id)s, %(spec)s, %(idempotency_key)s, %(fingerprint)s, %(failure_policy)s,
    %(time_limit)s, %(keep_for)s, clock.now, clock.now + %(time_limit)s
FROM (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) AS clock
ON CONFLICT (tenant_id, idempotency_key) DO NOTHING;

-- name: find_by_idempotency_key
-- The job of an idempotency key.
SELECT
    id, tenant_id, status, run, spec, idempotency_key, fingerprint, failure_policy, time_limit, keep_for, page_count,
    result_key, result_sha256, result_bytes, result, failure, created_at, finished_at, deadline_at, expires_at
FROM job
WHERE tenant_id = %(tenant_id)s AND idempotency_key = %(idempotency_key)s;

-- name: get_job
-- One job, of any tenant when none is named.
SELECT
    id, tenant_id, status, run, spec, idempotency_key, fingerprint, failure_policy, time_limit, keep_for, page_count,
    result_key, result_sha256, result_bytes, result, failure, created_at, finished_at, deadline_at, expires_at
FROM job
WHERE id = %(job_id)s AND (%(tenant_id)s::text IS NULL OR tenant_id = %(tenant_id)s);

-- name: lock_job
-- Locks a job and gives its status.
SELECT status FROM job
WHERE id = %(job_id)s AND (%(tenant_id)s::text IS NULL OR tenant_id = %(tenant_id)s)
FOR NO KEY UPDATE;

-- name: lock_unfinished_job
-- Locks a job that has not ended; no row if it has.
SELECT id FROM job
WHERE id = %(job_id)s AND status IN ('queued', 'rendering', 'assembling')
FOR NO KEY UPDATE;

-- name: end_job
-- Ends an unfinished job as failed or cancelled, and says which run that was.
UPDATE job
SET status = %(status)s, failure = %(failure)s, finished_at = clock.now, expires_at = clock.now + keep_for
FROM (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) AS clock
WHERE id = %(job_id)s AND status IN ('queued', 'rendering', 'assembling')
RETURNING run;

-- name: list_jobs
-- A page of a tenant's jobs without their specs, newest first.
SELECT
    id, tenant_id, status, run, idempotency_key, fingerprint, failure_policy, time_limit, keep_for, page_count,
    result_key, result_sha256, result_bytes, failure, created_at, finished_at, deadline_at, expires_at
FROM job
WHERE tenant_id = %(tenant_id)s
    AND (%(status)s::text IS NULL OR status = %(status)s)
    AND (%(after_time)s::timestamptz IS NULL OR (created_at, id) < (%(after_time)s, %(after_id)s::uuid))
ORDER BY created_at DESC, id DESC
LIMIT %(limit)s;

-- name: count_unfinished
-- How many jobs of a tenant have not ended.
SELECT count(*) FROM job WHERE tenant_id = %(tenant_id)s AND status IN ('queued', 'rendering', 'assembling');

-- name: get_snapshots
-- Jobs with their batches and how far painting is, each part index counted once: its completed part, else its latest.
SELECT
    id, tenant_id, status, run, idempotency_key, fingerprint, failure_policy, time_limit, keep_for, page_count,
    result_key, result_sha256, result_bytes, failure, created_at, finished_at, deadline_at, expires_at,
    jsonb_path_query_array(result, '$.missing[0 to 99]') AS missing,
    CASE WHEN jsonb_typeof(result -> 'missing') = 'array' THEN jsonb_array_length(result -> 'missing') END
        AS missing_count,
    result -> 'warnings' AS warnings,
    jsonb_array_length(spec -> 'documents') AS documents, plan, batches, pages, pages_laid_out,
    parts_done, parts_failed, parts_total
FROM job
CROSS JOIN LATERAL (
    SELECT jsonb_agg(to_jsonb(batch) - 'job_id' ORDER BY batch_no) AS batches FROM batch WHERE job_id = job.id
) AS all_batches
CROSS JOIN LATERAL (
    SELECT
        coalesce(sum(pages), 0)::integer AS pages,
        count(*) FILTER (WHERE status = 'completed') AS parts_done,
        count(*) FILTER (WHERE status = 'failed') AS parts_failed,
        count(*) AS parts_total
    FROM (
        SELECT DISTINCT ON (part_index) part.status, part.pages
        FROM batch JOIN part USING (job_id, batch_no)
        WHERE batch.job_id = job.id AND batch.kind = 'paint'
        ORDER BY part_index, (part.status = 'completed') DESC, batch_no DESC
    ) AS latest
) AS painting
CROSS JOIN LATERAL (
    SELECT coalesce(sum(pages), 0)::integer AS pages_laid_out
    FROM (
        SELECT DISTINCT ON (part_index) part.pages
        FROM batch JOIN part USING (job_id, batch_no)
        WHERE batch.job_id = job.id AND batch.kind = 'layout' AND part.status = 'completed'
        ORDER BY part_index, batch_no DESC
    ) AS latest
) AS layout
WHERE id = ANY (%(job_ids)s) AND (%(tenant_id)s::text IS NULL OR tenant_id = %(tenant_id)s);

-- name: painted_warnings
-- The warnings of a job's painted parts, each once, in the order of the parts.
SELECT warning
FROM (
    SELECT DISTINCT ON (part.part_index) part.part_index, part.result -> 'warnings' AS warnings
    FROM batch JOIN part USING (job_id, batch_no)
    WHERE batch.job_id = %(job_id)s AND batch.kind = 'paint' AND part.status = 'completed'
    ORDER BY part.part_index, part.batch_no DESC
) AS painted
CROSS JOIN LATERAL jsonb_path_query(warnings, '$[*]') WITH ORDINALITY AS listed (entry, place)
CROSS JOIN LATERAL (SELECT entry #>> '{}' AS warning) AS said
GROUP BY warning
ORDER BY min(array[part_index, place])
LIMIT %(limit)s;

-- name: list_parts
-- A page of a job's parts, in order of batch and index, without what windows tell each other.
SELECT
    part.job_id, part.batch_no, part.part_index, batch.kind, part.status, part.generation,
    part.spec - '{entry,anchors}'::text[] AS spec, part.input_hash,
    part.attempts, part.losses, part.next_attempt_at, part.lease_owner, part.lease_epoch, part.lease_expires_at,
    part.dispatched_at, part.result - '{first,report}'::text[] AS result, part.result_ref, part.result_sha256, part.pages, part.failure, part.completed_at
FROM part JOIN batch USING (job_id, batch_no)
WHERE part.job_id = %(job_id)s AND (part.batch_no, part.part_index) > (%(after_batch)s, %(after_index)s)
ORDER BY part.batch_no, part.part_index
LIMIT %(limit)s;

-- name: count_unfinished_jobs
-- Unfinished jobs by status.
SELECT status, count(*) FROM job WHERE status IN ('queued', 'rendering', 'assembling') GROUP BY status;

-- name: count_work
-- Pending and leased parts of running batches; events waiting and given up.
SELECT
    (SELECT coalesce(sum(remaining), 0)::bigint FROM batch WHERE status = 'running') AS parts_pending,
    (
        SELECT count(*) FROM batch JOIN part USING (job_id, batch_no)
        WHERE batch.status = 'running' AND part.status = 'pending' AND part.dispatched_at IS NOT NULL
            AND part.lease_expires_at IS NOT NULL
    ) AS parts_leased,
    (SELECT count(*) FROM outbox WHERE sent_at IS NULL AND parked_at IS NULL) AS events_unsent,
    (SELECT count(*) FROM outbox WHERE parked_at IS NOT NULL) AS events_parked;
