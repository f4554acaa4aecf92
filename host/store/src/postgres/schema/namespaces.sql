-- The namespaces that hosts have worked in. Answers texts.
SELECT namespace FROM leasehold.identities
