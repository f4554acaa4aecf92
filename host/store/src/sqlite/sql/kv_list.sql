-- Keys in the order of their bytes: a prefix is a range of keys, never a pattern.
-- Arguments: tenant; from, included; after, excluded or NULL; before, excluded or NULL; how many.
SELECT key FROM kv
WHERE tenant = ?1 AND key >= ?2 AND (?3 IS NULL OR key > ?3) AND (?4 IS NULL OR key < ?4)
ORDER BY key
LIMIT ?5
