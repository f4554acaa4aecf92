-- The yardstick's table, as small as one can be that has a key, a state and a time.
--
-- Variables (psql): table, its name.

CREATE TABLE :"table" (
    id bigint PRIMARY KEY,
    state text NOT NULL,
    until bigint NOT NULL
);
