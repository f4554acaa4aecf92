-- Whether the schema's tables are there: a schema without them was only made for us. Answers one boolean.
SELECT to_regclass('leasehold.schema_version') IS NOT NULL
