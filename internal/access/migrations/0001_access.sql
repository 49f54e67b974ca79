-- Who may call.

CREATE TABLE api_keys (
	id         TEXT PRIMARY KEY,
	tenant     TEXT NOT NULL,
	hash       TEXT NOT NULL UNIQUE,
	role       TEXT NOT NULL,
	label      TEXT NOT NULL DEFAULT '',
	networks   TEXT NOT NULL DEFAULT '', -- where it may be used from, as JSON; none for everywhere
	created_at BIGINT NOT NULL,
	last_used  BIGINT NOT NULL DEFAULT 0,
	revoked_at BIGINT NOT NULL DEFAULT 0
);
