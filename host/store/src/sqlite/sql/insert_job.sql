-- A job's first record.
INSERT INTO jobs (tenant, name, revision, newest_started, newest_skipped, last_fence, since, fingerprint,
                  last_offered, largest_bound_ms, hold_until, hold_note, stored)
VALUES (:tenant, :name, :revision, :newest_started, :newest_skipped, :last_fence, :since, :fingerprint,
        :last_offered, :largest_bound_ms, :hold_until, :hold_note, :stored)
