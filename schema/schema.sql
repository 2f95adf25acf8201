-- The present state of Fanfold's database. Migrations lead here; a test holds the two together.
--
-- job     queued → rendering → assembling → completed | failed | cancelled, then expired; retry: failed → rendering
-- batch   running → completed | failed | cancelled
-- part    pending → completed | failed; a pending part of an ended batch is cancelled
--
-- Locks are taken in the order job, part, batch. Completing a part never locks the job.

CREATE TABLE job (
    id uuid PRIMARY KEY,
    tenant_id text NOT NULL DEFAULT 'default',
    status text NOT NULL DEFAULT 'queued',
    run integer NOT NULL DEFAULT 1,
    spec jsonb NOT NULL,
    idempotency_key text,
    fingerprint text,
    failure_policy text NOT NULL DEFAULT 'fail',
    time_limit interval NOT NULL,
    keep_for interval NOT NULL,
    page_count integer,
    result_key text,
    result_sha256 text,
    result_bytes bigint,
    result jsonb,
    failure jsonb,
    created_at timestamptz NOT NULL,
    finished_at timestamptz,
    deadline_at timestamptz NOT NULL,
    -- when its objects may go; once it is expired, when it did expire
    expires_at timestamptz,
    -- of a single document: the windows it is laid out in, and the rounds that took, as clients see it
    plan jsonb,

    CONSTRAINT job_idempotency_key UNIQUE (tenant_id, idempotency_key),
    CONSTRAINT job_status CHECK (
        status IN ('queued', 'rendering', 'assembling', 'completed', 'failed', 'cancelled', 'expired')
    ),
    CONSTRAINT job_failure_policy CHECK (failure_policy IN ('fail', 'partial')),
    CONSTRAINT job_run_positive CHECK (run >= 1),
    CONSTRAINT job_limits_positive CHECK (time_limit > interval '0' AND keep_for >= interval '0'),
    CONSTRAINT job_spec_is_object CHECK (jsonb_typeof(spec) = 'object'),
    CONSTRAINT job_plan_is_object CHECK (jsonb_typeof(plan) = 'object'),
    CONSTRAINT job_ended_has_times CHECK (
        CASE WHEN status IN ('queued', 'rendering', 'assembling')
            THEN finished_at IS NULL AND expires_at IS NULL
            ELSE finished_at IS NOT NULL AND expires_at IS NOT NULL
        END
    ),
    CONSTRAINT job_completed_has_result CHECK (
        CASE WHEN status = 'completed'
            THEN num_nulls(page_count, result_key, result_sha256, result_bytes, result) = 0
            WHEN status = 'expired' THEN true
            ELSE num_nonnulls(page_count, result_key, result_sha256, result_bytes, result) = 0
        END
    ),
    CONSTRAINT job_failed_has_failure CHECK (
        CASE WHEN status = 'failed' THEN failure IS NOT NULL
            WHEN status = 'expired' THEN true
            ELSE failure IS NULL
        END
    ),
    CONSTRAINT job_result_positive CHECK (page_count >= 1 AND result_bytes >= 1)
) WITH (fillfactor = 80);

CREATE INDEX job_listing ON job (tenant_id, created_at DESC, id DESC);
CREATE INDEX job_unfinished ON job (tenant_id, status) WHERE status IN ('queued', 'rendering', 'assembling');
CREATE INDEX job_deadline ON job (deadline_at) WHERE status IN ('queued', 'rendering', 'assembling');
CREATE INDEX job_expiry ON job (expires_at) WHERE status IN ('completed', 'failed', 'cancelled');
CREATE INDEX job_expired ON job (expires_at) WHERE status = 'expired';

-- Every completion of a part updates its batch's row: room on the page keeps those updates off the indexes.
CREATE TABLE batch (
    job_id uuid NOT NULL REFERENCES job ON DELETE CASCADE,
    batch_no integer NOT NULL,
    kind text NOT NULL,
    status text NOT NULL DEFAULT 'running',
    total integer NOT NULL,
    remaining integer NOT NULL,
    created_at timestamptz NOT NULL,
    -- when it stopped running, for whatever reason
    completed_at timestamptz,

    PRIMARY KEY (job_id, batch_no),
    CONSTRAINT batch_no_not_negative CHECK (batch_no >= 0),
    CONSTRAINT batch_kind CHECK (kind IN ('plan', 'layout', 'paint', 'assemble')),
    CONSTRAINT batch_status CHECK (status IN ('running', 'completed', 'failed', 'cancelled')),
    CONSTRAINT batch_remaining_in_range CHECK (remaining BETWEEN 0 AND total),
    CONSTRAINT batch_completed_is_empty CHECK (status <> 'completed' OR remaining = 0),
    CONSTRAINT batch_ended_has_time CHECK ((status = 'running') = (completed_at IS NULL))
) WITH (fillfactor = 50);

-- A job is a sequence of batches: never two at a time.
CREATE UNIQUE INDEX batch_running ON batch (job_id) WHERE status = 'running';

CREATE TABLE part (
    job_id uuid NOT NULL,
    batch_no integer NOT NULL,
    part_index integer NOT NULL,
    generation integer NOT NULL DEFAULT 0,
    status text NOT NULL DEFAULT 'pending',
    spec jsonb NOT NULL,
    input_hash text,
    attempts integer NOT NULL DEFAULT 0,
    losses integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL,
    -- who holds it, or who last did; it is held while lease_expires_at is set
    lease_owner text,
    lease_epoch integer NOT NULL DEFAULT 0,
    lease_expires_at timestamptz,
    -- when workers were last told of it; NULL again when it is let go
    dispatched_at timestamptz,
    result jsonb,
    result_ref text,
    result_sha256 text,
    pages integer GENERATED ALWAYS AS (
        CASE WHEN jsonb_typeof(result -> 'pages') = 'number' THEN (result ->> 'pages')::integer END
    ) STORED,
    failure jsonb,
    -- when it stopped being pending
    completed_at timestamptz,

    PRIMARY KEY (job_id, batch_no, part_index),
    FOREIGN KEY (job_id, batch_no) REFERENCES batch ON DELETE CASCADE,
    CONSTRAINT part_index_not_negative CHECK (part_index >= 0),
    CONSTRAINT part_generation_not_negative CHECK (generation >= 0),
    CONSTRAINT part_status CHECK (status IN ('pending', 'completed', 'failed')),
    CONSTRAINT part_counters_not_negative CHECK (attempts >= 0 AND losses >= 0 AND lease_epoch >= 0),
    CONSTRAINT part_lease_is_pending CHECK (
        lease_expires_at IS NULL OR (status = 'pending' AND lease_owner IS NOT NULL AND dispatched_at IS NOT NULL)
    ),
    CONSTRAINT part_completed_has_result CHECK (
        CASE WHEN status = 'completed'
            THEN num_nulls(input_hash, result) = 0
            ELSE num_nonnulls(input_hash, result, result_ref, result_sha256) = 0
        END
    ),
    CONSTRAINT part_failed_has_failure CHECK (status <> 'failed' OR failure IS NOT NULL),
    CONSTRAINT part_ended_has_time CHECK ((status = 'pending') = (completed_at IS NULL))
) WITH (fillfactor = 80);

-- Pending parts are waiting or in flight. Claims and renewals touch no index.
CREATE INDEX part_waiting ON part (job_id, batch_no, part_index) WHERE status = 'pending' AND dispatched_at IS NULL;
CREATE INDEX part_in_flight ON part (job_id, batch_no, part_index)
    WHERE status = 'pending' AND dispatched_at IS NOT NULL;

CREATE TABLE outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_key text NOT NULL,
    type text NOT NULL,
    -- no foreign key: completing a part must not touch the job, and an event may outlive it
    job_id uuid NOT NULL,
    payload jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    available_at timestamptz NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    claimed_until timestamptz,
    sent_at timestamptz,
    -- when its consumer gave up on it
    parked_at timestamptz,

    CONSTRAINT outbox_event_key UNIQUE (event_key),
    CONSTRAINT outbox_type CHECK (type IN ('batch-completed', 'job-completed', 'job-failed', 'job-cancelled')),
    CONSTRAINT outbox_attempts_not_negative CHECK (attempts >= 0),
    CONSTRAINT outbox_sent_or_parked CHECK (sent_at IS NULL OR parked_at IS NULL)
) WITH (fillfactor = 80);

CREATE INDEX outbox_unsent ON outbox (available_at, id) WHERE sent_at IS NULL AND parked_at IS NULL;
CREATE INDEX outbox_unsent_of_job ON outbox (job_id) WHERE sent_at IS NULL AND parked_at IS NULL;
CREATE INDEX outbox_sent ON outbox (sent_at) WHERE sent_at IS NOT NULL;
CREATE INDEX outbox_parked ON outbox (parked_at) WHERE parked_at IS NOT NULL;

CREATE TABLE processed_event (
    consumer text NOT NULL,
    event_key text NOT NULL,

    PRIMARY KEY (consumer, event_key)
);
