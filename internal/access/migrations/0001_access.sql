-- Who may call. A ledger that a manager made earlier has this table already.

CREATE TABLE IF NOT EXISTS api_keys (
	id         TEXT PRIMARY KEY,
	tenant     TEXT NOT NULL,
	hash       TEXT NOT NULL UNIQUE,
	role       TEXT NOT NULL,
	label      TEXT NOT NULL DEFAULT '',
	created_at BIGINT NOT NULL,
	last_used  BIGINT NOT NULL DEFAULT 0,
	revoked_at BIGINT NOT NULL DEFAULT 0
);
