-- batch: carries out requests about jobs, each atomically on its job, all in one transaction.
--
-- Argument: {"schema":…,"patience":…,"namespace":…,"requests":[…]}, each request as leasehold.request says.
-- Answers: one row a request, with its ordinal.
--
-- Requests are carried out in the order of their jobs' keys, so that two batches never wait for each other's locks
-- crosswise; those of one job in the order given.
CREATE OR REPLACE FUNCTION leasehold.batch(doc jsonb) RETURNS SETOF leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    space text := doc->>'namespace';
    ask leasehold.request;
BEGIN
    PERFORM leasehold.guard(doc);
    FOR ask IN
        SELECT * FROM jsonb_populate_recordset(NULL::leasehold.request, doc->'requests') r
        ORDER BY r.tenant, r.name, r.ordinal
    LOOP
        CASE ask.verb
            WHEN 'claim' THEN RETURN NEXT leasehold.claim(space, ask);
            WHEN 'finish' THEN RETURN NEXT leasehold.finish(space, ask);
            ELSE RETURN NEXT leasehold.carry_out(space, ask);
        END CASE;
    END LOOP;
END
$$;

-- Carries out a request about a job that is not as frequent as those two.
CREATE OR REPLACE FUNCTION leasehold.carry_out(space text, ask leasehold.request) RETURNS leasehold.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    job leasehold.jobs := leasehold.lock_job(
        space, ask.tenant, ask.name, ask.verb IN ('trigger', 'announce', 'hold'));
    -- Under the lock, as everywhere.
    at bigint := leasehold.clock();
BEGIN
    RETURN CASE ask.verb
        WHEN 'release' THEN leasehold.release(job, ask, at)
        WHEN 'trigger' THEN leasehold.trigger(job, ask, at)
        WHEN 'announce' THEN leasehold.announce(job, ask, at)
        WHEN 'cancel' THEN leasehold.cancel(job, ask, at)
        WHEN 'close' THEN leasehold.close(job, ask, at)
        WHEN 'unblock' THEN leasehold.unblock(job, ask, at)
        WHEN 'hold' THEN leasehold.hold(job, ask, at)
        WHEN 'prune' THEN leasehold.prune(job, ask, at)
    END;
END
$$;
