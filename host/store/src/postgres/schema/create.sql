-- Makes the schema where it is missing. Asked for without need it would demand a right that a careful administrator has
-- not granted.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = 'leasehold') THEN
        CREATE SCHEMA leasehold;
    END IF;
END
$$;
