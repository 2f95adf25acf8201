-- name: insert_event
-- Announces a transition in its own transaction; a second event with the same key aborts that transaction.
INSERT INTO outbox (event_key, type, job_id, payload, created_at, available_at)
SELECT %(event_key)s, %(type)s, %(job_id)s, %(payload)s, clock.now, clock.now
FROM (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) AS clock;

-- name: claim_events
-- Leases the events that wait longest, past those that others are claiming.
WITH due AS MATERIALIZED (
    SELECT outbox.id
    FROM outbox, (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) AS clock
    WHERE sent_at IS NULL AND parked_at IS NULL
        AND available_at <= clock.now
        AND (claimed_until IS NULL OR claimed_until <= clock.now)
    ORDER BY available_at, outbox.id
    LIMIT %(limit)s
    FOR NO KEY UPDATE OF outbox SKIP LOCKED
)
UPDATE outbox
SET attempts = attempts + 1, claimed_until = coalesce(%(now)s::timestamptz, clock_timestamp()) + %(lease)s
FROM due
WHERE outbox.id = due.id
RETURNING
    outbox.id, outbox.event_key, outbox.type, outbox.job_id, outbox.payload, outbox.attempts, outbox.created_at;

-- name: insert_processed_event
-- Records that a consumer handled a batch's event; no row if it had, or if the job is past that batch already.
INSERT INTO processed_event (consumer, event_key)
SELECT %(consumer)s, %(event_key)s
WHERE NOT EXISTS (SELECT FROM batch WHERE job_id = %(job_id)s AND batch_no > %(batch_no)s)
ON CONFLICT DO NOTHING;

-- name: mark_sent
-- Ends an event's life; only once.
UPDATE outbox SET sent_at = coalesce(%(now)s::timestamptz, clock_timestamp()), claimed_until = NULL
WHERE id = %(event_id)s AND sent_at IS NULL AND parked_at IS NULL;

-- name: release_event
-- Gives an event back, to be claimed again after a while.
UPDATE outbox
SET available_at = coalesce(%(now)s::timestamptz, clock_timestamp()) + %(available_in)s, claimed_until = NULL
WHERE id = %(event_id)s AND sent_at IS NULL AND parked_at IS NULL;

-- name: park_event
-- Gives up on an event; it stays for people to look at.
UPDATE outbox SET parked_at = coalesce(%(now)s::timestamptz, clock_timestamp()), claimed_until = NULL
WHERE id = %(event_id)s AND sent_at IS NULL AND parked_at IS NULL;

-- name: unsent_count
-- How many events wait.
SELECT count(*) FROM outbox WHERE sent_at IS NULL AND parked_at IS NULL;

-- name: next_event_due
-- How long until the next event can be claimed; no row when none waits.
SELECT greatest(available_at, claimed_until) - coalesce(%(now)s::timestamptz, clock_timestamp())
FROM outbox
WHERE sent_at IS NULL AND parked_at IS NULL
ORDER BY greatest(available_at, claimed_until)
LIMIT 1;

-- name: prune_events
-- Removes events sent long ago, with the marks of who handled them.
WITH old AS (
    SELECT outbox.id FROM outbox
    WHERE sent_at <= (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) - %(older_than)s)
    ORDER BY sent_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
),
gone AS (
    DELETE FROM outbox USING old WHERE outbox.id = old.id RETURNING outbox.event_key
),
forgotten AS (
    DELETE FROM processed_event USING gone WHERE processed_event.event_key = gone.event_key
)
SELECT count(*) FROM gone;
