-- Whether the schema's tables are there: a schema without them was only made for us. Answers one boolean. (Read from the
-- catalog and not by to_regclass, which may remember that there was none before another host made it.)
SELECT EXISTS (
    SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'leasehold' AND c.relname = 'schema_version')
