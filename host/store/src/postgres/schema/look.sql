-- A first look at the server. Answers: its version as a number and as text, whether it is a standby, whether it only
-- reads, whether a commit waits for the disk, and whether the disk is waited for at all.
SELECT
    current_setting('server_version_num')::integer,
    current_setting('server_version'),
    pg_is_in_recovery(),
    current_setting('transaction_read_only') = 'on',
    current_setting('synchronous_commit'),
    current_setting('fsync')
