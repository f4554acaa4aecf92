-- Schema 3: what else an attempt used. Of attempts that ended before, nobody counted it.

ALTER TABLE attempts ADD COLUMN http_sent     INTEGER;                 -- 64 bits, as the two below
ALTER TABLE attempts ADD COLUMN http_received INTEGER;
ALTER TABLE attempts ADD COLUMN fuel          INTEGER;                 -- NULL also where it was not counted
