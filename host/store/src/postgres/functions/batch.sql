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
    job leasehold.jobs;
    at bigint;
BEGIN
    PERFORM leasehold.guard(doc);
    FOR ask IN
        SELECT * FROM jsonb_populate_recordset(NULL::leasehold.request, doc->'requests') r
        ORDER BY r.tenant, r.name, r.ordinal
    LOOP
        job := leasehold.lock_job(space, ask.tenant, ask.name, ask.verb IN ('claim', 'trigger', 'announce', 'hold'));
        -- Under the lock, so that a lease is as long as it should be however long the lock was waited for, and answers
        -- and revisions have the same order.
        at := leasehold.clock();
        RETURN NEXT CASE ask.verb
            WHEN 'claim' THEN leasehold.claim(job, ask, at)
            WHEN 'finish' THEN leasehold.finish(job, ask, at)
            WHEN 'release' THEN leasehold.release(job, ask, at)
            WHEN 'trigger' THEN leasehold.trigger(job, ask, at)
            WHEN 'announce' THEN leasehold.announce(job, ask, at)
            WHEN 'cancel' THEN leasehold.cancel(job, ask, at)
            WHEN 'close' THEN leasehold.close(job, ask, at)
            WHEN 'unblock' THEN leasehold.unblock(job, ask, at)
            WHEN 'hold' THEN leasehold.hold(job, ask, at)
            WHEN 'prune' THEN leasehold.prune(job, ask, at)
        END;
    END LOOP;
END
$$;
