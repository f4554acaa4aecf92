-- What a host offers, if it was heard of. Arguments: name, instance, what.
INSERT INTO host_offers (name, instance, offers)
SELECT name, instance, ?3 FROM hosts WHERE name = ?1 AND instance = ?2
ON CONFLICT (name, instance) DO UPDATE SET offers = excluded.offers
