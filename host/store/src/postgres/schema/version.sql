-- The schema's number. Answers one integer.
SELECT version FROM leasehold.schema_version
