-- Bytes that the database takes on disk.

SELECT pg_database_size(current_database());
