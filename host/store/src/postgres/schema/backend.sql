-- Which process of the server answers. Two clients that meet the same one have a pooler before them. Answers one integer.
SELECT pg_backend_pid()
