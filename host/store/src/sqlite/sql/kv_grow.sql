-- Counts what a tenant's values have grown or shrunk by. Arguments: tenant, bytes.
-- Only a tenant with a value can shrink, and it has a row.
INSERT INTO kv_sizes (tenant, size) VALUES (?1, max(?2, 0)) ON CONFLICT (tenant) DO UPDATE SET size = size + ?2
