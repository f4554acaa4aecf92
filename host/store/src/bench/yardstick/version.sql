-- The server's version.

SHOW server_version;
