-- now: the store's clock.
--
-- Keys: KEYS[1] and KEYS[2] tell which server and namespace are meant.
-- Answers: now

return clock()
