-- Makes the schema where it is missing. Asked for without need it would demand a right that a careful administrator has
-- not granted.
DO $$
BEGIN
    IF to_regnamespace('leasehold') IS NULL THEN
        CREATE SCHEMA leasehold;
    END IF;
END
$$;
