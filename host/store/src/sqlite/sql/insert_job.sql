-- A job's first record.
INSERT INTO jobs (revision, newest_started, newest_skipped, last_fence, since, fingerprint, last_offered,
                  largest_bound_ms, hold_since, hold_until, hold_note, stored, tenant, name)
VALUES (:revision, :newest_started, :newest_skipped, :last_fence, :since, :fingerprint, :last_offered,
        :largest_bound_ms, :hold_since, :hold_until, :hold_note, :stored, :tenant, :name)
