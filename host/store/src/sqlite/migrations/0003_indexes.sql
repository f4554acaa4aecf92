-- Schema 3: fewer indexes, and what else an attempt used.
--
-- Nearly all runs have a slot and none an on-demand id, and each wrote a page for the index of these all the same; and a
-- scheduled run is due at its slot, so one index of both is enough. SQLite can't take a table's UNIQUE away, so the table
-- is written anew. Foreign keys are off meanwhile, or dropping the old one would take all that lies beside its runs along.

CREATE TABLE runs_3 (
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
    cancelled        TEXT,                         -- who asked for it and why
    state_size       INTEGER,                      -- S15: NULL once the run is final
    kept_size        INTEGER NOT NULL DEFAULT 0,
    CHECK ((slot IS NULL) <> (demand IS NULL)),
    CHECK (slot IS NULL OR due = slot),
    CHECK (hand_overs BETWEEN 0 AND starts),       -- S3
    CHECK ((ended_at IS NULL) = (status IN ('pending', 'running')))
) STRICT;

INSERT INTO runs_3
SELECT id, job, slot, demand, status, due, lease_end, released, starts, hand_overs, ended_at, progress_done,
       progress_total, progress_message, cancelled, state_size, kept_size
FROM runs;

DROP TABLE runs;
ALTER TABLE runs_3 RENAME TO runs;

CREATE UNIQUE INDEX runs_by_slot ON runs (job, slot) WHERE slot IS NOT NULL;
CREATE UNIQUE INDEX runs_by_demand ON runs (job, demand) WHERE demand IS NOT NULL;
CREATE INDEX runs_on_demand_by_due ON runs (job, due) WHERE demand IS NOT NULL;
CREATE INDEX runs_by_due ON runs (due);
CREATE INDEX runs_unfinished ON runs (job) WHERE status IN ('pending', 'running');

-- Of attempts that ended before, nobody counted these.
ALTER TABLE attempts ADD COLUMN http_sent     INTEGER;                 -- 64 bits, as the two below
ALTER TABLE attempts ADD COLUMN http_received INTEGER;
ALTER TABLE attempts ADD COLUMN fuel          INTEGER;                 -- NULL also where it was not counted
