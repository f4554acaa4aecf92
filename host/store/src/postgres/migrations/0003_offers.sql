-- Schema 3: what hosts offer. It is much and changes seldom: a row that is written anew without it does not copy it.
ALTER TABLE leasehold.hosts ADD COLUMN offers text;     -- JSON object, opaque
