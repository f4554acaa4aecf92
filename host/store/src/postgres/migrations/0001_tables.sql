-- Schema 1: the tables of the lease store.
--
-- One set of tables serves every namespace of the database; the namespace is part of each key, so two systems in one
-- database never meet. Instants are whole milliseconds since the Unix epoch, UTC, by the server's clock, as bigint:
-- nothing depends on a session's time zone. Durations are whole milliseconds. Texts that no rule looks into (policies,
-- outcomes, progress, log lines, reasons) are kept as the JSON that the driver wrote, so that any character a guest
-- reports can be stored and two of them can be compared by their bytes.
--
-- The fill factors leave room on each page, so that a heartbeat updates its two rows in place (HOT): it touches no
-- index.

CREATE TABLE leasehold.schema_version (
    version integer NOT NULL
);

-- Who this store is, one row a namespace.
CREATE TABLE leasehold.identities (
    namespace text COLLATE "C" PRIMARY KEY,
    id text NOT NULL,
    secret bytea NOT NULL
);

-- Jobs. The row is the lock of everything that belongs to the job: whoever changes a run holds it.
CREATE TABLE leasehold.jobs (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    newest_started bigint,
    newest_skipped bigint,
    highest_slot bigint NOT NULL,           -- of all its scheduled runs ever: one above it has no run
    running bigint NOT NULL,                -- how many of its runs are running, live or expired
    pending bigint NOT NULL,                -- how many wait to be started
    last_fence bigint NOT NULL,
    since bigint,
    fingerprint text NOT NULL,              -- JSON text
    last_offered bigint,
    largest_bound bigint NOT NULL,
    hold text,                              -- JSON object, opaque; null: not held back
    held_until bigint,                      -- null with a hold: until it is let go
    stored bigint NOT NULL,                 -- bytes kept beside its runs
    UNIQUE (namespace, tenant, name)
) WITH (fillfactor = 50);

-- Runs, each with its current attempt. A scheduled run has its slot and no demand; an on-demand run has its id in
-- demand and the largest bigint for its slot. So (slot, demand) is the order of runs within a job.
CREATE TABLE leasehold.runs (
    job_id bigint NOT NULL,
    slot bigint NOT NULL,
    demand text COLLATE "C" NOT NULL,
    -- pending, running, success, failed, interrupted. (No CHECK: it would be compiled anew for every statement that
    -- writes a run, which costs a tenth of all that a claim and a finish cost.)
    status text COLLATE "C" NOT NULL,
    due bigint NOT NULL,
    lease_end bigint NOT NULL DEFAULT 0,
    released boolean NOT NULL DEFAULT false,
    starts bigint NOT NULL DEFAULT 0,
    hand_overs bigint NOT NULL DEFAULT 0,
    ended_at bigint,                        -- set exactly while the status is final
    cancelled text,                         -- JSON text: the reason
    state_size bigint,
    kept_size bigint NOT NULL DEFAULT 0,
    progress text,                          -- JSON object, opaque
    outcome text,                           -- JSON, opaque
    -- The current attempt; attempt is 0 and the others are null or their defaults while pending.
    attempt bigint NOT NULL DEFAULT 0,
    token uuid,
    fence bigint,
    lease bigint,
    meta text,                              -- JSON object, opaque: runner, digest, policy
    started_at bigint,
    attempt_ended_at bigint,
    attempt_end text COLLATE "C",
    usage text,                             -- JSON object, opaque
    write_number numeric NOT NULL DEFAULT 0,
    write_word text COLLATE "C" NOT NULL DEFAULT 'done',
    log_number numeric NOT NULL DEFAULT 0,
    log_word text COLLATE "C" NOT NULL DEFAULT 'done',
    -- The job stands last: a search for a job's unfinished runs must not find this index fit, whatever the planner
    -- believes about the table. One that goes through all that has finished grows with the history.
    PRIMARY KEY (slot, demand, job_id)
) WITH (fillfactor = 70);

-- What is still open, however much has finished: claims, polls and trigger look here only.
CREATE INDEX runs_unfinished ON leasehold.runs (job_id, status, slot, demand) WHERE ended_at IS NULL;

-- What has finished, newest first: for people, and for prune.
CREATE INDEX runs_finished ON leasehold.runs (job_id, due DESC, slot, demand) WHERE ended_at IS NOT NULL;

-- The same of all jobs together. A scheduled run is due at its slot, so for those the primary key serves.
CREATE INDEX runs_on_demand ON leasehold.runs (due) WHERE demand <> '';

-- Attempts before the current one.
CREATE TABLE leasehold.attempts (
    job_id bigint NOT NULL,
    slot bigint NOT NULL,
    demand text COLLATE "C" NOT NULL,
    attempt bigint NOT NULL,
    token uuid NOT NULL,
    fence bigint NOT NULL,
    meta text NOT NULL,
    started_at bigint NOT NULL,
    ended_at bigint,
    ended text COLLATE "C",
    usage text,
    write_number numeric NOT NULL,
    write_word text COLLATE "C" NOT NULL,
    log_number numeric NOT NULL,
    log_word text COLLATE "C" NOT NULL,
    PRIMARY KEY (job_id, slot, demand, attempt),
    FOREIGN KEY (slot, demand, job_id) REFERENCES leasehold.runs ON DELETE CASCADE
);

-- What on-demand runs work on.
CREATE TABLE leasehold.payloads (
    job_id bigint NOT NULL,
    slot bigint NOT NULL,
    demand text COLLATE "C" NOT NULL,
    payload bytea NOT NULL,
    PRIMARY KEY (job_id, slot, demand),
    FOREIGN KEY (slot, demand, job_id) REFERENCES leasehold.runs ON DELETE CASCADE
);

-- Checkpoints of unfinished runs.
CREATE TABLE leasehold.states (
    job_id bigint NOT NULL,
    slot bigint NOT NULL,
    demand text COLLATE "C" NOT NULL,
    state bytea NOT NULL,
    PRIMARY KEY (job_id, slot, demand),
    FOREIGN KEY (slot, demand, job_id) REFERENCES leasehold.runs ON DELETE CASCADE
);

-- Log lines, numbered from 1 within their run.
CREATE TABLE leasehold.logs (
    job_id bigint NOT NULL,
    slot bigint NOT NULL,
    demand text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL,
    attempt bigint NOT NULL,
    line text NOT NULL,                     -- JSON object, opaque
    PRIMARY KEY (job_id, slot, demand, sequence),
    FOREIGN KEY (slot, demand, job_id) REFERENCES leasehold.runs ON DELETE CASCADE
);

-- Ids of on-demand runs that were pruned, and when.
CREATE TABLE leasehold.gone (
    job_id bigint NOT NULL,
    demand text COLLATE "C" NOT NULL,
    pruned_at bigint NOT NULL,
    PRIMARY KEY (job_id, demand)
);

-- Tenants that write: the row is the lock of the tenant's quota and key-value space.
CREATE TABLE leasehold.tenants (
    namespace text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    kv_stored bigint NOT NULL DEFAULT 0,    -- bytes of its key-value space
    PRIMARY KEY (namespace, tenant)
) WITH (fillfactor = 50);

-- Key-value spaces. Keys are bytes, so that their order is that of their bytes whatever the database's collation.
CREATE TABLE leasehold.kv (
    namespace text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    key bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (namespace, tenant, key)
);

-- What hosts were told, for people who ask why.
CREATE TABLE leasehold.told (
    job_id bigint NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    slot bigint NOT NULL,
    demand text COLLATE "C" NOT NULL,
    body text NOT NULL,                     -- JSON object, opaque
    PRIMARY KEY (job_id, id)
);

-- Hosts that said they are there. Names are bytes for the order's sake, as keys are.
CREATE TABLE leasehold.hosts (
    namespace text COLLATE "C" NOT NULL,
    name bytea NOT NULL,
    instance bytea NOT NULL,
    report text NOT NULL,                   -- JSON object, opaque
    first_seen bigint NOT NULL,
    last_seen bigint NOT NULL,
    drain boolean NOT NULL DEFAULT false,
    PRIMARY KEY (namespace, name, instance)
);

-- What is asked about a job. Each verb reads the fields it needs; the others are null.
CREATE TYPE leasehold.request AS (
    ordinal integer,                        -- its place in the batch
    verb text,
    tenant text COLLATE "C",
    name text COLLATE "C",
    slot bigint,
    demand text COLLATE "C",
    token uuid,
    -- claim
    kind text,                              -- slot, catch-up, takeover, on-demand
    late_after bigint,                      -- how late it may be, grace excluded; null: never late
    not_after bigint,
    lease bigint,
    max_attempts bigint,
    skip boolean,                           -- overlap = skip
    largest_bound bigint,
    meta text,
    -- finish and release
    status text,
    outcome text,
    attempt_end text,
    output_size bigint,                     -- bytes that its output counts, 64 more than it has
    usage text,
    -- trigger
    payload text,                           -- hexadecimal
    pending_max bigint,
    -- announce
    fingerprint text,
    -- cancel and close
    reason text,
    unoffered_for bigint,
    -- unblock
    newest_due bigint,
    -- hold
    hold text,
    held_until bigint,
    -- prune
    history_size bigint
);

-- One answer: whose, by which clock, at which revision of the job, and what, as JSON.
CREATE TYPE leasehold.answer AS (
    ordinal integer,
    at bigint,
    revision bigint,
    answer text
);
