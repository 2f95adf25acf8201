-- name: due_parts
-- Parts to tell workers about: each job up to its window, the least served tenant and then the least served job first.
WITH clock AS MATERIALIZED (
    SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now
),
running AS MATERIALIZED (
    SELECT job.tenant_id, batch.job_id, batch.batch_no, batch.kind, in_flight.count AS in_flight
    FROM clock, batch JOIN job ON job.id = batch.job_id CROSS JOIN LATERAL (
        SELECT count(*) FROM part
        WHERE part.job_id = batch.job_id AND part.batch_no = batch.batch_no
            AND part.status = 'pending' AND part.dispatched_at IS NOT NULL
            AND (part.lease_expires_at IS NOT NULL OR part.dispatched_at > clock.now - %(resend_after)s)
    ) AS in_flight
    WHERE batch.status = 'running'
),
due AS (
    SELECT
        running.*, window_of_job.part_index, window_of_job.host,
        running.in_flight + row_number() OVER (PARTITION BY running.job_id ORDER BY window_of_job.part_index) AS turn
    FROM clock, running CROSS JOIN LATERAL (
        (
            SELECT part.part_index, NULL AS host FROM part
            WHERE part.job_id = running.job_id AND part.batch_no = running.batch_no
                AND part.status = 'pending' AND part.dispatched_at IS NOT NULL
                AND part.lease_expires_at IS NULL AND part.dispatched_at <= clock.now - %(resend_after)s
                AND part.next_attempt_at <= clock.now
            ORDER BY part.part_index
            LIMIT least(%(limit)s, %(window)s - running.in_flight)
        )
        UNION ALL
        (
            SELECT part.part_index, CASE WHEN part.lease_epoch = 0 THEN part.spec ->> 'host' END AS host FROM part
            WHERE part.job_id = running.job_id AND part.batch_no = running.batch_no
                AND part.status = 'pending' AND part.dispatched_at IS NULL
                AND part.next_attempt_at <= clock.now
            ORDER BY part.part_index
            LIMIT least(%(limit)s, %(window)s - running.in_flight)
        )
        ORDER BY part_index
        LIMIT least(%(limit)s, %(window)s - running.in_flight)
    ) AS window_of_job
    WHERE running.in_flight < %(window)s
),
tenant AS (
    SELECT tenant_id, sum(in_flight) AS in_flight FROM running GROUP BY tenant_id
)
SELECT due.job_id, due.batch_no, due.part_index, due.kind, due.host
FROM due JOIN tenant USING (tenant_id)
ORDER BY
    tenant.in_flight + row_number() OVER (PARTITION BY tenant_id ORDER BY due.turn, due.job_id),
    due.turn,
    due.job_id
LIMIT greatest(0, least(%(limit)s, %(total_window)s - (SELECT sum(in_flight) FROM running)));

-- name: mark_dispatched
-- Remembers that workers were told of these parts, so that they are not told again soon.
WITH told AS MATERIALIZED (
    SELECT part.job_id, part.batch_no, part.part_index
    FROM part JOIN unnest(%(job_ids)s::uuid[], %(batch_nos)s::integer[], %(part_indexes)s::integer[])
        AS key (job_id, batch_no, part_index) USING (job_id, batch_no, part_index)
    WHERE part.status = 'pending' AND part.lease_expires_at IS NULL
    ORDER BY part.job_id, part.batch_no, part.part_index
    FOR NO KEY UPDATE OF part SKIP LOCKED
)
UPDATE part SET dispatched_at = coalesce(%(now)s::timestamptz, clock_timestamp())
FROM told
WHERE part.job_id = told.job_id AND part.batch_no = told.batch_no AND part.part_index = told.part_index;
