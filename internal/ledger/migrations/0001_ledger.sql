-- What every room of the ledger uses: leases, the outbox and its sequencer, marks.

CREATE TABLE leases (
	name       TEXT PRIMARY KEY,
	owner      TEXT NOT NULL,
	term       BIGINT NOT NULL,
	expires_at BIGINT NOT NULL
);
CREATE INDEX leases_owner ON leases (owner);

CREATE TABLE outbox (
	id      SERIAL_KEY,
	seq     BIGINT NOT NULL DEFAULT 0,
	topic   TEXT NOT NULL,
	subject TEXT NOT NULL,
	kind    TEXT NOT NULL,
	body    TEXT NOT NULL,
	at      BIGINT NOT NULL
);
CREATE UNIQUE INDEX outbox_seq ON outbox (seq) WHERE seq > 0;
CREATE INDEX outbox_unsequenced ON outbox (id) WHERE seq = 0;
CREATE INDEX outbox_subject ON outbox (subject, id);

CREATE TABLE counters (
	name  TEXT PRIMARY KEY,
	value BIGINT NOT NULL
);
INSERT INTO counters (name, value) VALUES ('outbox', 0), ('mark', 0);

CREATE TABLE marks (
	name  TEXT PRIMARY KEY,
	value TEXT NOT NULL
);
