-- Schema 2: checkpoints, the tenants' key-value spaces, what is counted against quotas, cancelled runs, held jobs, and
-- what is kept for people: answers and hosts.

ALTER TABLE jobs ADD COLUMN hold_until INTEGER;
ALTER TABLE jobs ADD COLUMN hold_note  TEXT;                           -- NULL: nobody holds the job back
ALTER TABLE jobs ADD COLUMN stored     INTEGER NOT NULL DEFAULT 0;     -- bytes beside its runs

ALTER TABLE runs ADD COLUMN cancelled  TEXT;                           -- who asked for it and why
ALTER TABLE runs ADD COLUMN state_size INTEGER;                        -- S15: NULL once the run is final
ALTER TABLE runs ADD COLUMN kept_size  INTEGER NOT NULL DEFAULT 0;

-- Nearly all runs of a job are final, and an index of them by status would only cost each three writes.
CREATE INDEX runs_unfinished ON runs (job) WHERE status IN ('pending', 'running');
DROP INDEX runs_by_status;

-- Until now only log lines were numbered.
ALTER TABLE attempts RENAME COLUMN last_write TO last_log;             -- 64 bits
ALTER TABLE attempts ADD COLUMN last_log_answer   TEXT    NOT NULL DEFAULT 'done';
ALTER TABLE attempts ADD COLUMN last_write        INTEGER NOT NULL DEFAULT 0;   -- 64 bits
ALTER TABLE attempts ADD COLUMN last_write_answer TEXT    NOT NULL DEFAULT 'done';

CREATE TABLE states (
    run  INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
    data BLOB NOT NULL
) STRICT;

-- Keys are bytes, so that they compare as bytes whatever text they are.
CREATE TABLE kv (
    id     INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    key    BLOB NOT NULL,
    value  BLOB NOT NULL,
    UNIQUE (tenant, key)
) STRICT;

-- What each tenant's values count against its quota, so that no write has to add them up.
CREATE TABLE kv_sizes (
    tenant TEXT PRIMARY KEY,
    size   INTEGER NOT NULL CHECK (size >= 0)
) STRICT, WITHOUT ROWID;

-- What hosts were told when they asked about a run, for who asks why.
CREATE TABLE told (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    job    INTEGER NOT NULL REFERENCES jobs (id),
    slot   INTEGER,
    demand TEXT,
    host   TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    asked  TEXT    NOT NULL,
    answer TEXT    NOT NULL,
    detail TEXT    NOT NULL,
    CHECK ((slot IS NULL) <> (demand IS NULL))
) STRICT;

CREATE INDEX told_of_job ON told (job, id);

CREATE TABLE hosts (
    name            TEXT    NOT NULL,
    instance        TEXT    NOT NULL,
    version         TEXT    NOT NULL,
    clock_offset_ms INTEGER NOT NULL,
    details         TEXT    NOT NULL,
    first_seen      INTEGER NOT NULL,
    last_seen       INTEGER NOT NULL,
    drain           INTEGER NOT NULL CHECK (drain IN (0, 1)),
    PRIMARY KEY (name, instance)
) STRICT, WITHOUT ROWID;
