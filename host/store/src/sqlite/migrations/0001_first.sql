-- Schema 1: jobs, their runs, each run's attempts, and what lies beside a run.
--
-- Instants are whole milliseconds since the Unix epoch, durations whole milliseconds. Columns marked "64 bits" hold an
-- unsigned number bit for bit, so a large one reads as negative; they are compared for equality only.

-- Who this store is, made once: the two values set it apart from all others.
CREATE TABLE identity (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    id     TEXT    NOT NULL CHECK (length(id) = 32),
    secret BLOB    NOT NULL CHECK (length(secret) = 32)
) STRICT;

CREATE TABLE jobs (
    id               INTEGER PRIMARY KEY,
    tenant           TEXT    NOT NULL,
    name             TEXT    NOT NULL,
    revision         INTEGER NOT NULL,             -- 64 bits
    newest_started   INTEGER,                      -- S10: outlives every run
    newest_skipped   INTEGER,
    last_fence       INTEGER NOT NULL,             -- 64 bits
    since            INTEGER,
    fingerprint      TEXT    NOT NULL,
    last_offered     INTEGER,
    largest_bound_ms INTEGER NOT NULL CHECK (largest_bound_ms >= 0),
    UNIQUE (tenant, name)
) STRICT;

-- A scheduled run has a slot, an on-demand run an id; NULLs are distinct, so each is unique within its job.
CREATE TABLE runs (
    id               INTEGER PRIMARY KEY,
    job              INTEGER NOT NULL REFERENCES jobs (id),
    slot             INTEGER,
    demand           TEXT,
    status           TEXT    NOT NULL CHECK (status IN ('pending', 'running', 'success', 'failed', 'interrupted')),
    due              INTEGER NOT NULL,
    lease_end        INTEGER NOT NULL,
    released         INTEGER NOT NULL CHECK (released IN (0, 1)),
    starts           INTEGER NOT NULL,
    hand_overs       INTEGER NOT NULL,
    ended_at         INTEGER,
    progress_done    INTEGER,                      -- 64 bits
    progress_total   INTEGER,                      -- 64 bits
    progress_message TEXT,
    UNIQUE (job, slot),
    UNIQUE (job, demand),
    CHECK ((slot IS NULL) <> (demand IS NULL)),
    CHECK (hand_overs BETWEEN 0 AND starts),       -- S3
    CHECK ((ended_at IS NULL) = (status IN ('pending', 'running')))
) STRICT;

CREATE INDEX runs_by_status ON runs (job, status);
CREATE INDEX runs_of_job_by_due ON runs (job, due);
CREATE INDEX runs_by_due ON runs (due);

CREATE TABLE attempts (
    run          INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    attempt      INTEGER NOT NULL CHECK (attempt > 0),
    token        BLOB    NOT NULL CHECK (length(token) = 16),
    fence        INTEGER NOT NULL,                 -- 64 bits
    runner       TEXT    NOT NULL,
    lease_ms     INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    overlap      TEXT    NOT NULL CHECK (overlap IN ('skip', 'allow')),
    catch_up_ms  INTEGER NOT NULL,
    max_late_ms  INTEGER NOT NULL,
    history_size INTEGER NOT NULL,
    digest       BLOB    CHECK (length(digest) = 32),
    started_at   INTEGER NOT NULL,
    ended_at     INTEGER,
    ended        TEXT,
    last_write   INTEGER NOT NULL,                 -- 64 bits
    wall_ms      INTEGER,                          -- 64 bits, as the four below
    cpu_ms       INTEGER,
    peak_memory  INTEGER,
    host_calls   INTEGER,
    log_bytes    INTEGER,
    PRIMARY KEY (run, attempt),
    CHECK ((ended_at IS NULL) = (ended IS NULL))
) STRICT, WITHOUT ROWID;

-- How a run ended; which columns are set goes with its status.
CREATE TABLE outcomes (
    run       INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    output    BLOB,
    cut       INTEGER,
    code      TEXT,
    message   TEXT,
    details   TEXT,                                -- JSON: [["name", "value"], ...]
    retryable INTEGER,
    reason    TEXT
) STRICT;

CREATE TABLE payloads (
    run     INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    payload BLOB NOT NULL
) STRICT;

CREATE TABLE logs (
    run      INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    sequence INTEGER NOT NULL CHECK (sequence > 0),
    attempt  INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    level    TEXT    NOT NULL CHECK (level IN ('trace', 'debug', 'info', 'warn', 'error')),
    target   TEXT    NOT NULL,
    message  TEXT    NOT NULL,
    fields   TEXT    NOT NULL,                     -- JSON: [["name", "value"], ...]
    PRIMARY KEY (run, sequence)
) STRICT, WITHOUT ROWID;

-- On-demand runs that were pruned: a repeated trigger must not run twice.
CREATE TABLE gone (
    job    INTEGER NOT NULL REFERENCES jobs (id),
    demand TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (job, demand)
) STRICT, WITHOUT ROWID;
