-- The schema that these functions belong to: that of the newest migration, in lockstep with the driver's SCHEMA.
CREATE OR REPLACE FUNCTION leasehold.version() RETURNS integer
LANGUAGE sql IMMUTABLE AS $$ SELECT 5 $$;

DELETE FROM leasehold.schema_version;
INSERT INTO leasehold.schema_version VALUES (leasehold.version());
