-- What decides how long a commit takes, as name=value.

SELECT name || '=' || setting
FROM pg_settings
WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes')
ORDER BY name;
