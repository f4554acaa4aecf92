-- Removes the yardstick's table.
--
-- Variables (psql): table, its name.

DROP TABLE :"table";
