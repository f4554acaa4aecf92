-- Schema 5: what hosts offer.
--
-- It is much and changes seldom, while a host's own row is written every few seconds: so it lies apart.

CREATE TABLE host_offers (
    name     TEXT NOT NULL,
    instance TEXT NOT NULL,
    offers   TEXT NOT NULL,
    PRIMARY KEY (name, instance),
    FOREIGN KEY (name, instance) REFERENCES hosts (name, instance) ON DELETE CASCADE
) STRICT;
