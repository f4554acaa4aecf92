-- Remembers a pruned on-demand run. Arguments: job, its id, when.
INSERT INTO gone (job, demand, at) VALUES (?1, ?2, ?3)
