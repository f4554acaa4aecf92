-- What a host offers. Arguments: name, instance.
SELECT offers FROM host_offers WHERE name = ?1 AND instance = ?2
