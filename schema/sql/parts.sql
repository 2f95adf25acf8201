-- A part is held while lease_expires_at is set; the table allows that for pending parts only, so that statements about
-- a held part need not ask.

-- name: claim_part
-- Leases a due part of a running batch that nobody holds; no row otherwise.
UPDATE part
SET lease_owner = %(owner)s,
    lease_epoch = part.lease_epoch + 1,
    lease_expires_at = clock.now + %(lease)s,
    dispatched_at = coalesce(part.dispatched_at, clock.now)
FROM batch, job, (SELECT coalesce(%(now)s::timestamptz, clock_timestamp()) AS now) AS clock
WHERE part.job_id = %(job_id)s AND part.batch_no = %(batch_no)s AND part.part_index = %(part_index)s
    AND part.status = 'pending'
    AND part.lease_expires_at IS NULL
    AND part.next_attempt_at <= clock.now
    AND batch.job_id = part.job_id AND batch.batch_no = part.batch_no
    AND batch.status = 'running'
    AND job.id = part.job_id
RETURNING
    part.job_id, part.batch_no, part.part_index, batch.kind, part.lease_epoch, part.generation, part.attempts,
    part.losses, part.spec AS part_spec, part.failure, job.spec AS job_spec, job.failure_policy, job.run,
    job.deadline_at, job.deadline_at - clock.now AS time_left;

-- name: renew_lease
-- Extends a lease that its holder still has on a part of a running batch; no row otherwise.
UPDATE part
SET lease_expires_at = coalesce(%(now)s::timestamptz, clock_timestamp()) + %(lease)s
FROM batch
WHERE part.job_id = %(job_id)s AND part.batch_no = %(batch_no)s AND part.part_index = %(part_index)s
    AND part.lease_epoch = %(epoch)s
    AND part.lease_expires_at IS NOT NULL
    AND batch.job_id = part.job_id AND batch.batch_no = part.batch_no
    AND batch.status = 'running';

-- name: complete_part
-- Completes a pending part, whoever holds it.
UPDATE part
SET status = 'completed',
    input_hash = %(input_hash)s,
    result = %(result)s,
    result_ref = %(result_ref)s,
    result_sha256 = %(result_sha256)s,
    lease_expires_at = NULL,
    completed_at = coalesce(%(now)s::timestamptz, clock_timestamp())
WHERE job_id = %(job_id)s AND batch_no = %(batch_no)s AND part_index = %(part_index)s
    AND status = 'pending';

-- name: count_down
-- Takes one part off what a running batch waits for, and says whether it was the last.
UPDATE batch
SET remaining = remaining - 1
WHERE job_id = %(job_id)s AND batch_no = %(batch_no)s
    AND status = 'running'
RETURNING remaining = 0;

-- name: part_outcome
-- How a part and its batch stand, read after a statement that met no row.
SELECT part.status, part.input_hash, batch.status AS batch_status
FROM part JOIN batch USING (job_id, batch_no)
WHERE part.job_id = %(job_id)s AND part.batch_no = %(batch_no)s AND part.part_index = %(part_index)s;

-- name: part_budget
-- What a part has been charged so far, and whether its failure is the job's. Its holder alone can change that.
SELECT part.attempts, part.losses, job.failure_policy
FROM part JOIN job ON job.id = part.job_id
WHERE part.job_id = %(job_id)s AND part.batch_no = %(batch_no)s AND part.part_index = %(part_index)s;

-- name: retry_part
-- Charges a failed try and lets the part go until its next one; a failure that is not given keeps the last.
UPDATE part
SET attempts = part.attempts + %(attempt)s,
    losses = part.losses + %(loss)s,
    failure = coalesce(%(failure)s, part.failure),
    next_attempt_at = coalesce(%(now)s::timestamptz, clock_timestamp()) + %(retry_after)s,
    lease_expires_at = NULL,
    dispatched_at = NULL
FROM batch
WHERE part.job_id = %(job_id)s AND part.batch_no = %(batch_no)s AND part.part_index = %(part_index)s
    AND part.lease_epoch = %(epoch)s
    AND part.lease_expires_at IS NOT NULL
    AND batch.job_id = part.job_id AND batch.batch_no = part.batch_no
    AND batch.status = 'running';

-- name: fail_part
-- Charges a failed try and ends the part with it.
UPDATE part
SET status = 'failed',
    attempts = attempts + %(attempt)s,
    losses = losses + %(loss)s,
    failure = %(failure)s,
    lease_expires_at = NULL,
    completed_at = coalesce(%(now)s::timestamptz, clock_timestamp())
WHERE job_id = %(job_id)s AND batch_no = %(batch_no)s AND part_index = %(part_index)s
    AND lease_epoch = %(epoch)s
    AND lease_expires_at IS NOT NULL;

-- name: fail_batch
-- Ends the running batch of a part that failed for good.
UPDATE batch
SET status = 'failed', completed_at = coalesce(%(now)s::timestamptz, clock_timestamp())
WHERE job_id = %(job_id)s AND batch_no = %(batch_no)s
    AND status = 'running';

-- name: return_part
-- Lets a held part go unfinished and uncharged, due at once.
UPDATE part
SET next_attempt_at = coalesce(%(now)s::timestamptz, clock_timestamp()),
    lease_expires_at = NULL,
    dispatched_at = NULL
WHERE job_id = %(job_id)s AND batch_no = %(batch_no)s AND part_index = %(part_index)s
    AND lease_epoch = %(epoch)s
    AND lease_expires_at IS NOT NULL;
