-- What all verbs share: the clock, the guard of the version, the lock of a job, and how an answer is made.
--
-- Only the batch functions (leasehold.batch, leasehold.heartbeats, leasehold.write and the reads) are called from
-- outside, each in a statement of its own. What is ours is written with its schema. Operators and the server's own
-- functions are not: the driver sets search_path to pg_catalog for every call, so nobody's namesakes lead astray.

-- The store's clock in whole milliseconds. Rules read it after the job's lock is held: a clock read before would stand
-- still while the statement waits.
CREATE OR REPLACE FUNCTION leasehold.clock() RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
$$;

-- The last due time that a run can have unless a clock was ahead when it was made: newest first, those due later stand
-- behind all others (leasehold_lease::order). Argument: the time.
CREATE OR REPLACE FUNCTION leasehold.present(at bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT at + 10000 $$;

-- Whether the job is held back. A hold that ends by itself, or has ended, and that a clock that was ahead has begun, is not
-- in force. Arguments: the job, the time.
CREATE OR REPLACE FUNCTION leasehold.holds(job leasehold.jobs, at bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT job.hold IS NOT NULL AND (job.held_until IS NULL
        OR at < job.held_until AND coalesce((job.hold::jsonb->>'since')::bigint <= leasehold.present(at), true))
$$;

-- Refuses a caller of another version. Argument: the document of the call, whose "schema" is the caller's.
CREATE OR REPLACE FUNCTION leasehold.guard(doc jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF (doc->>'schema')::integer IS DISTINCT FROM leasehold.version() THEN
        RAISE EXCEPTION 'this host knows schema % and the database is at schema %',
            doc->>'schema', leasehold.version() USING ERRCODE = 'LH001';
    END IF;
    -- A lock is waited for at most so long, then the call fails and is repeated. Set here rather than in the session,
    -- which a pooler may share.
    PERFORM set_config('lock_timeout', doc->>'patience', true);
END
$$;

-- Locks the job and answers it; its id is null when there is no such job. Arguments: its key, and whether the verb may
-- create it: then those who would create the same job take turns, so that each reads the clock after its wait.
CREATE OR REPLACE FUNCTION leasehold.lock_job(space text, of_tenant text, named text, creates boolean)
RETURNS leasehold.jobs
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    job leasehold.jobs;
BEGIN
    SELECT * INTO job FROM leasehold.jobs j
        WHERE j.namespace = space AND j.tenant = of_tenant AND j.name = named FOR UPDATE;
    IF NOT FOUND AND creates THEN
        PERFORM pg_advisory_xact_lock(hashtextextended(space || '/' || of_tenant || '/' || named, 0));
        SELECT * INTO job FROM leasehold.jobs j
            WHERE j.namespace = space AND j.tenant = of_tenant AND j.name = named FOR UPDATE;
    END IF;
    IF job.id IS NULL THEN
        job.namespace := space;
        job.tenant := of_tenant;
        job.name := named;
        job.revision := 0;
        job.highest_slot := -9223372036854775808;
        job.last_fence := 0;
        job.fingerprint := '""';
        job.largest_bound := 0;
        job.stored := 0;
        job.pending := 0;
    END IF;
    RETURN job;
END
$$;

-- Creates the job's row if there is none. Only a verb that changes something calls it: a refusal creates nothing.
CREATE OR REPLACE FUNCTION leasehold.known(job leasehold.jobs) RETURNS leasehold.jobs
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF job.id IS NULL THEN
        INSERT INTO leasehold.jobs
            (namespace, tenant, name, revision, highest_slot, running, pending, last_fence, fingerprint,
            largest_bound, stored)
            VALUES (job.namespace, job.tenant, job.name, 0, job.highest_slot, 0, 0, 0, job.fingerprint, 0, 0)
            RETURNING id INTO job.id;
    END IF;
    RETURN job;
END
$$;

-- The answer of a verb. When the verb has changed the job, its row is written with the next revision: one change, one
-- revision (S12). How many runs are running or pending is counted where that changes.
CREATE OR REPLACE FUNCTION leasehold.said(
    job leasehold.jobs, ordinal integer, at bigint, changed boolean, answer text
) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF changed THEN
        job.revision := job.revision + 1;
        UPDATE leasehold.jobs j SET
            revision = job.revision,
            newest_started = job.newest_started,
            newest_skipped = job.newest_skipped,
            highest_slot = job.highest_slot,
            last_fence = job.last_fence,
            since = job.since,
            fingerprint = job.fingerprint,
            last_offered = job.last_offered,
            largest_bound = job.largest_bound,
            hold = job.hold,
            held_until = job.held_until,
            stored = job.stored
        WHERE j.id = job.id;
    END IF;
    RETURN ROW(ordinal, at, job.revision, answer)::leasehold.answer;
END
$$;

-- A run's id within its job as JSON: a number for a slot, a text for an on-demand run.
CREATE OR REPLACE FUNCTION leasehold.run_id(slot bigint, demand text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN demand = '' THEN slot::text ELSE to_json(demand)::text END
$$;

-- Gives an unfinished run up. Arguments: which, the time, and the reason as JSON text. Answers the bytes that its
-- checkpoint took: S15, it goes with the final status.
CREATE OR REPLACE FUNCTION leasehold.interrupt(
    job bigint, of_slot bigint, of_demand text, at bigint, reason text
) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    run leasehold.runs;
BEGIN
    SELECT * INTO STRICT run FROM leasehold.runs r
        WHERE r.job_id = job AND r.slot = of_slot AND r.demand = of_demand;
    UPDATE leasehold.runs r SET
        status = 'interrupted',
        ended_at = at,
        outcome = '{"interrupted":{"reason":' || reason || '}}',
        attempt_ended_at = CASE WHEN r.attempt > 0 THEN coalesce(r.attempt_ended_at, at) END,
        attempt_end = CASE WHEN r.attempt > 0 THEN coalesce(r.attempt_end, 'expired') END,
        state_size = NULL
    WHERE r.job_id = job AND r.slot = of_slot AND r.demand = of_demand;
    UPDATE leasehold.jobs j SET
            running = j.running - (run.status = 'running')::integer,
            pending = j.pending - (run.status = 'pending')::integer
        WHERE j.id = job;
    IF run.state_size IS NULL THEN
        RETURN 0;
    END IF;
    DELETE FROM leasehold.states s WHERE s.job_id = job AND s.slot = of_slot AND s.demand = of_demand;
    RETURN run.state_size + 64;
END
$$;
