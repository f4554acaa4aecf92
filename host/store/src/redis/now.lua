-- now: the store's clock.
--
-- Keys: KEYS[1] tells which server and namespace are meant.
-- Answers: now

return clock()
