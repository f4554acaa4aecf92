-- Schema 4: a value's key lies in the file once.
--
-- Beside a table with row numbers, the index of its keys holds every key again: long keys took twice what a tenant's
-- quota counts.

CREATE TABLE kv_4 (
    tenant TEXT NOT NULL,
    key    BLOB NOT NULL,
    value  BLOB NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;

INSERT INTO kv_4 (tenant, key, value) SELECT tenant, key, value FROM kv ORDER BY tenant, key;
DROP TABLE kv;
ALTER TABLE kv_4 RENAME TO kv;
