-- The hosts, by name and instance.
SELECT * FROM hosts ORDER BY name, instance
