-- claim: a request to start a run, answered atomically.
--
-- Answers: {"won":{attempt,fence,payload}} "stale" {"ended":status} {"running":{attempt,lease_end}} {"overlap":run}
-- {"none":newest started} "late" "early" {"superseded":newest started} {"held":until} "old".

-- Arguments: the namespace and the request; it locks the job itself.
--
-- Nearly every claim that wins is of a new slot that nothing stands against. It is recognised in one look and carried out
-- in two statements; in every other case leasehold.claim_any goes through the rules one by one. (Each expression of a
-- function costs some microseconds anew in every transaction, so what is done often is said in few.)
CREATE OR REPLACE FUNCTION leasehold.claim(space text, ask leasehold.request) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    job leasehold.jobs;
    at bigint;
    is_plain boolean;
BEGIN
    SELECT * INTO job FROM leasehold.jobs j
        WHERE j.namespace = space AND j.tenant = ask.tenant AND j.name = ask.name FOR UPDATE;
    IF job.id IS NULL THEN
        job := leasehold.lock_job(space, ask.tenant, ask.name, true);
    END IF;
    -- Under the lock, so that a lease is as long as it should be however long the lock was waited for, and answers and
    -- revisions have the same order.
    at := leasehold.clock();
    is_plain := job.id IS NOT NULL
        AND at <= ask.not_after AND ask.demand = ''
        -- S9: neither late nor early.
        AND ask.slot BETWEEN at - ask.late_after - 10000 AND at + 10000
        -- S10: a new slot, and nothing superseded.
        AND ask.slot > job.highest_slot
        AND (ask.kind = 'slot' OR ask.slot >= job.since AND coalesce(ask.slot > job.newest_skipped, true))
        AND job.hold IS NULL
        -- S7, S8: nothing that overlaps, nothing to settle, no lease to cut.
        AND job.running = 0;
    IF is_plain THEN
        RETURN leasehold.win_plainly(job.id, ask, at);
    END IF;
    RETURN leasehold.claim_any(job, ask, at);
END
$$;

-- Starts the first attempt of a new slot above all others. Arguments: the job, the request, the time.
CREATE OR REPLACE FUNCTION leasehold.win_plainly(job bigint, ask leasehold.request, at bigint) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    answer leasehold.answer;
    fence bigint;
BEGIN
    UPDATE leasehold.jobs j SET
        revision = j.revision + 1,
        newest_started = greatest(j.newest_started, ask.slot),
        highest_slot = ask.slot,
        running = 1,
        last_fence = leasehold.next_fence(j.last_fence, ask.slot, 1),
        largest_bound = greatest(j.largest_bound, ask.largest_bound)
    WHERE j.id = job
    RETURNING j.last_fence, ask.ordinal, at, j.revision, '{"won":{"attempt":1,"fence":' || j.last_fence || ',"payload":null}}'
    INTO fence, answer.ordinal, answer.at, answer.revision, answer.answer;
    INSERT INTO leasehold.runs
        (job_id, slot, demand, status, due, lease_end, starts, attempt, token, fence, lease, meta, started_at)
    VALUES
        (job, ask.slot, '', 'running', ask.slot, at + ask.lease, 1, 1, ask.token, fence, ask.lease, ask.meta, at);
    RETURN answer;
END
$$;

-- S8: above every fence that the job has given out, and max(last + 1, due in ms * 1024 + attempt). The bound keeps an
-- absurd clock from overflowing.
CREATE OR REPLACE FUNCTION leasehold.next_fence(last_fence bigint, due bigint, attempt bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT greatest(last_fence + 1, least(greatest(due, 0), 9007199254740000) * 1024 + attempt)
$$;

-- Any claim. Arguments: the job, locked; the request; the time, read under the lock.
CREATE OR REPLACE FUNCTION leasehold.claim_any(job leasehold.jobs, ask leasehold.request, at bigint)
RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    run leasehold.runs;
    is_live boolean;
    other record;
    newest_due bigint;              -- of the newest other live run
    newest_slot bigint;
    newest_demand text COLLATE "C";
    overlap text;                   -- its id as JSON
    is_cut boolean := false;        -- a lease end was cut
    has_expired boolean := false;   -- another run is expired
BEGIN
    -- A copy that its sender no longer waits for must not win with nobody listening.
    IF at > ask.not_after THEN
        RETURN leasehold.said(job, ask.ordinal, at, false, '"old"');
    END IF;
    IF ask.slot <= job.highest_slot OR ask.demand <> '' THEN
        SELECT * INTO run FROM leasehold.runs r
            WHERE r.job_id = job.id AND r.slot = ask.slot AND r.demand = ask.demand;
    END IF;
    is_live := run.status = 'running' AND NOT run.released AND at <= run.lease_end;

    -- S11: a stale token changes nothing.
    IF run.token = ask.token AND NOT is_live
        OR coalesce(run.attempt > 1 AND run.token <> ask.token, false) AND leasehold.was_won_by(run, ask.token)
    THEN
        RETURN leasehold.said(job, ask.ordinal, at, false, '"stale"');
    END IF;

    FOR other IN
        SELECT r.due, r.slot, r.demand, r.lease_end, r.lease,
            NOT r.released AND at <= r.lease_end AS live,
            r.slot = ask.slot AND r.demand = ask.demand AS same
        FROM leasehold.runs r
        WHERE r.job_id = job.id AND r.ended_at IS NULL AND r.status = 'running'
    LOOP
        is_cut := is_cut OR other.live AND other.lease_end > at + other.lease;
        has_expired := has_expired OR NOT other.live AND NOT other.same;
        IF other.live AND NOT other.same THEN
            IF overlap IS NULL
                OR (other.due, other.slot, other.demand) > (newest_due, newest_slot, newest_demand)
            THEN
                newest_due := other.due;
                newest_slot := other.slot;
                newest_demand := other.demand;
                overlap := leasehold.run_id(other.slot, other.demand);
            END IF;
        END IF;
    END LOOP;

    -- A lease that lies further ahead than it was given for: the clock was set back. It is cut.
    IF is_cut THEN
        UPDATE leasehold.runs r SET lease_end = at + r.lease
            WHERE r.job_id = job.id AND r.ended_at IS NULL AND r.status = 'running' AND NOT r.released
                AND at <= r.lease_end AND r.lease_end > at + r.lease;
        run.lease_end := least(run.lease_end, at + run.lease);
    END IF;

    IF run.job_id IS NULL THEN
        RETURN leasehold.claim_new(job, ask, at, overlap, is_cut, has_expired);
    END IF;
    RETURN leasehold.claim_known(job, ask, at, run, is_live, overlap, is_cut, has_expired);
END
$$;

-- A claim of a run that the store knows. Further arguments: the run and whether it is live, the newest other live run,
-- whether a lease end was cut, whether another run is expired.
CREATE OR REPLACE FUNCTION leasehold.claim_known(
    job leasehold.jobs, ask leasehold.request, at bigint,
    run leasehold.runs, is_live boolean, overlap text, is_cut boolean, has_expired boolean
) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    reason text;
BEGIN
    -- S13: a claim whose answer was lost gets the same attempt and fence.
    IF run.token = ask.token THEN
        RETURN leasehold.said(job, ask.ordinal, at, is_cut,
            leasehold.won(job.id, ask.slot, ask.demand, run.attempt, run.fence));
    END IF;
    IF run.ended_at IS NOT NULL THEN
        RETURN leasehold.said(job, ask.ordinal, at, is_cut, '{"ended":"' || run.status || '"}');
    END IF;
    IF is_live THEN
        RETURN leasehold.said(job, ask.ordinal, at, is_cut,
            '{"running":{"attempt":' || run.attempt || ',"lease_end":' || run.lease_end || '}}');
    END IF;
    IF run.status = 'running' THEN
        reason := CASE
            -- Its runner died before it could end it.
            WHEN run.cancelled IS NOT NULL THEN run.cancelled
            WHEN ask.demand = '' AND job.newest_started > ask.slot THEN '"a newer slot has started"'
            -- S3: the attempts that count stay within the limit.
            WHEN run.starts - run.hand_overs >= ask.max_attempts
                THEN '"its ' || (run.starts - run.hand_overs) || ' attempts are used up"'
        END;
        IF reason IS NOT NULL THEN
            job.stored := job.stored - leasehold.interrupt(job.id, ask.slot, ask.demand, at, reason);
            RETURN leasehold.said(job, ask.ordinal, at, true, '{"ended":"interrupted"}');
        END IF;
    END IF;
    -- S7: under skip another live run stands in the way.
    IF ask.skip AND overlap IS NOT NULL THEN
        RETURN leasehold.said(job, ask.ordinal, at, is_cut, '{"overlap":' || overlap || '}');
    END IF;
    RETURN leasehold.win(job, ask, at, run, has_expired);
END
$$;

-- A claim of a run that the store does not know. Further arguments: as above.
CREATE OR REPLACE FUNCTION leasehold.claim_new(
    job leasehold.jobs, ask leasehold.request, at bigint, overlap text, is_cut boolean, has_expired boolean
) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    -- However late it is asked for: what was due while the job was held back does not start when it is let go.
    is_held boolean := leasehold.holds(job, at) OR job.hold IS NOT NULL AND coalesce(
        ask.slot >= (job.hold::jsonb->>'since')::bigint AND coalesce(ask.slot < job.held_until, true), false);
    is_first_skip boolean := coalesce(job.newest_skipped < ask.slot, true);
BEGIN
    -- Only trigger creates an on-demand run, only a slot's own claim or a catch-up a scheduled one.
    IF ask.demand <> '' OR ask.late_after IS NULL THEN
        RETURN leasehold.said(job, ask.ordinal, at, is_cut,
            '{"none":' || coalesce(job.newest_started::text, 'null') || '}');
    END IF;
    -- S9: a scheduled run's first win is neither late nor early; clocks may differ by 10 s.
    IF ask.slot < at - ask.late_after - 10000 THEN
        RETURN leasehold.said(job, ask.ordinal, at, is_cut, '"late"');
    END IF;
    IF ask.slot > at + 10000 THEN
        RETURN leasehold.said(job, ask.ordinal, at, is_cut, '"early"');
    END IF;
    -- S10: a slot that ever won is never won as attempt 1 again, whatever was pruned.
    IF ask.slot <= job.newest_started
        OR ask.kind = 'catch-up'
            AND (NOT is_first_skip OR coalesce(ask.slot < job.since, true))
    THEN
        RETURN leasehold.said(job, ask.ordinal, at, is_cut,
            '{"superseded":' || coalesce(job.newest_started::text, 'null') || '}');
    END IF;
    IF NOT is_held AND NOT (ask.skip AND overlap IS NOT NULL) THEN
        RETURN leasehold.win(job, ask, at, NULL, has_expired);
    END IF;
    -- Held back, or S7: the slot is remembered as skipped, so that it is not caught up.
    job.newest_skipped := greatest(job.newest_skipped, ask.slot);
    RETURN leasehold.said(job, ask.ordinal, at, is_cut OR is_first_skip, CASE
        WHEN is_held THEN '{"held":' || coalesce(job.held_until::text, 'null') || '}'
        ELSE '{"overlap":' || overlap || '}'
    END);
END
$$;

-- Whether this token won an attempt of the run before the current one.
CREATE OR REPLACE FUNCTION leasehold.was_won_by(run leasehold.runs, with_token uuid) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
    SELECT EXISTS (
        SELECT FROM leasehold.attempts a
        WHERE a.job_id = run.job_id AND a.slot = run.slot AND a.demand = run.demand AND a.token = with_token)
$$;

-- Starts the next attempt. Further arguments: the run, null when it is new, and whether another one is expired.
CREATE OR REPLACE FUNCTION leasehold.win(
    job leasehold.jobs, ask leasehold.request, at bigint, run leasehold.runs, has_expired boolean
) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    -- S1: attempts are 1, 2, 3 ... without gaps.
    next bigint := coalesce(run.attempt, 0) + 1;
BEGIN
    IF has_expired THEN
        job.stored := job.stored - leasehold.settle_others(job.id, ask, at);
    END IF;
    job.last_fence := leasehold.next_fence(job.last_fence, coalesce(run.due, ask.slot), next);
    IF run.job_id IS NULL THEN
        job := leasehold.known(job);
    END IF;
    IF run.status IS DISTINCT FROM 'running' THEN
        UPDATE leasehold.jobs j SET
                running = j.running + 1,
                pending = j.pending - coalesce(run.status = 'pending', false)::integer
            WHERE j.id = job.id;
    END IF;
    IF run.job_id IS NULL THEN
        INSERT INTO leasehold.runs
            (job_id, slot, demand, status, due, lease_end, starts, attempt, token, fence, lease, meta, started_at)
        VALUES
            (job.id, ask.slot, ask.demand, 'running', ask.slot, at + ask.lease, 1, 1, ask.token, job.last_fence,
            ask.lease, ask.meta, at);
    ELSE
        PERFORM leasehold.set_aside(run, at);
        UPDATE leasehold.runs r SET
            status = 'running', lease_end = at + ask.lease, released = false, starts = r.starts + 1,
            progress = NULL, attempt = next, token = ask.token, fence = job.last_fence, lease = ask.lease,
            meta = ask.meta, started_at = at, attempt_ended_at = NULL, attempt_end = NULL, usage = NULL,
            write_number = 0, write_word = 'done', log_number = 0, log_word = 'done'
        WHERE r.job_id = job.id AND r.slot = ask.slot AND r.demand = ask.demand;
    END IF;
    job.largest_bound := greatest(job.largest_bound, ask.largest_bound);
    IF ask.demand = '' THEN
        job.newest_started := greatest(job.newest_started, ask.slot);
        job.highest_slot := greatest(job.highest_slot, ask.slot);
    END IF;
    RETURN leasehold.said(job, ask.ordinal, at, true,
        leasehold.won(job.id, ask.slot, ask.demand, next, job.last_fence));
END
$$;

-- Moves the run's current attempt to the older ones, of which 999 are kept. It was lost, unless it had ended before.
CREATE OR REPLACE FUNCTION leasehold.set_aside(run leasehold.runs, at bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF run.attempt = 0 THEN
        RETURN;
    END IF;
    INSERT INTO leasehold.attempts VALUES (
        run.job_id, run.slot, run.demand, run.attempt, run.token, run.fence, run.meta, run.started_at,
        coalesce(run.attempt_ended_at, at), coalesce(run.attempt_end, 'lost'), run.usage,
        run.write_number, run.write_word, run.log_number, run.log_word);
    DELETE FROM leasehold.attempts a
        WHERE a.job_id = run.job_id AND a.slot = run.slot AND a.demand = run.demand
            AND a.attempt <= run.attempt - 999;
END
$$;

-- What was expired when another run started cannot come back to life: a scheduled win makes every older expired
-- scheduled run interrupted (S8), and under skip every other expired run is released, no hand-over counted (S7).
-- Answers the bytes that were freed.
CREATE OR REPLACE FUNCTION leasehold.settle_others(job bigint, ask leasehold.request, at bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    freed bigint := 0;
    other record;
BEGIN
    FOR other IN
        SELECT r.slot, r.demand FROM leasehold.runs r
        WHERE r.job_id = job AND r.ended_at IS NULL AND r.status = 'running'
            AND (r.released OR at > r.lease_end) AND NOT (r.slot = ask.slot AND r.demand = ask.demand)
    LOOP
        IF other.demand = '' AND ask.demand = '' AND other.slot < ask.slot THEN
            freed := freed
                + leasehold.interrupt(job, other.slot, other.demand, at, '"a newer slot started first"');
        ELSIF ask.skip THEN
            UPDATE leasehold.runs r SET released = true
                WHERE r.job_id = job AND r.slot = other.slot AND r.demand = other.demand AND NOT r.released;
        END IF;
    END LOOP;
    RETURN freed;
END
$$;

-- The answer to a winner, with what an on-demand run works on.
CREATE OR REPLACE FUNCTION leasehold.won(job bigint, of_slot bigint, of_demand text, attempt bigint, fence bigint)
RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    hex text;
BEGIN
    IF of_demand <> '' THEN
        SELECT encode(p.payload, 'hex') INTO hex FROM leasehold.payloads p
            WHERE p.job_id = job AND p.slot = of_slot AND p.demand = of_demand;
    END IF;
    RETURN '{"won":{"attempt":' || attempt || ',"fence":' || fence || ',"payload":'
        || coalesce('"' || hex || '"', 'null') || '}}';
END
$$;
