-- The transaction manager. 256-bit numbers are decimal text, times microseconds since 1970
-- with 0 for "never", chain is part of every key. era grows when a chain is found reset.

CREATE TABLE chains (
	chain        TEXT PRIMARY KEY,
	identity     TEXT NOT NULL,
	era          BIGINT NOT NULL DEFAULT 0,
	halted       TEXT NOT NULL DEFAULT '',
	final_number BIGINT NOT NULL DEFAULT 0,
	final_hash   TEXT NOT NULL DEFAULT ''
);

CREATE TABLE signers (
	signer     TEXT PRIMARY KEY,
	kind       TEXT NOT NULL DEFAULT '',
	label      TEXT NOT NULL DEFAULT '',
	created_at BIGINT NOT NULL
);

CREATE TABLE signer_chains (
	chain         TEXT NOT NULL,
	signer        TEXT NOT NULL,
	ours          BOOLEAN NOT NULL,
	pools         TEXT NOT NULL DEFAULT '', -- those of an operator's word, besides those of settings
	enabled       BOOLEAN NOT NULL DEFAULT TRUE,
	paused_reason TEXT NOT NULL DEFAULT '',
	draining      BOOLEAN NOT NULL DEFAULT FALSE,
	halted        TEXT NOT NULL DEFAULT '',
	known         BOOLEAN NOT NULL DEFAULT FALSE,
	era           BIGINT NOT NULL DEFAULT 0,
	chain_nonce   BIGINT NOT NULL DEFAULT 0,
	next_nonce    BIGINT NOT NULL DEFAULT 0,
	delegated     BOOLEAN NOT NULL DEFAULT FALSE,
	balance       TEXT NOT NULL DEFAULT '',
	min_balance   TEXT NOT NULL DEFAULT '0',
	error_streak  BIGINT NOT NULL DEFAULT 0,
	last_error    TEXT NOT NULL DEFAULT '',
	last_seen     BIGINT NOT NULL DEFAULT 0,
	assigned      BIGINT NOT NULL DEFAULT 0,
	lock_id       TEXT NOT NULL DEFAULT '',
	lock_tenant   TEXT NOT NULL DEFAULT '',
	lock_until    BIGINT NOT NULL DEFAULT 0,
	created_at    BIGINT NOT NULL,
	tenant        TEXT NOT NULL DEFAULT '', -- who brought an account whose key is not here
	PRIMARY KEY (chain, signer)
);

-- Which processes have a signer's key, and in which pools the settings of each put it. What a living one says counts.
CREATE TABLE keyholders (
	instance TEXT NOT NULL,
	chain    TEXT NOT NULL,
	signer   TEXT NOT NULL,
	pools    TEXT NOT NULL,
	PRIMARY KEY (instance, chain, signer)
);

CREATE TABLE intents (
	seq          SERIAL_KEY,
	id           TEXT NOT NULL UNIQUE,
	tenant       TEXT NOT NULL,
	chain        TEXT NOT NULL,
	kind         TEXT NOT NULL,
	origin       TEXT NOT NULL DEFAULT '',
	idem_key     TEXT NOT NULL DEFAULT '',
	body_hash    TEXT NOT NULL,
	to_account   TEXT NOT NULL,
	value        TEXT NOT NULL,
	data         TEXT NOT NULL,
	gas          BIGINT NOT NULL,
	speed        TEXT NOT NULL,
	max_fee      TEXT NOT NULL DEFAULT '',
	max_tip      TEXT NOT NULL DEFAULT '',
	simulate     TEXT NOT NULL DEFAULT '',
	valid_until  BIGINT NOT NULL DEFAULT 0,
	pool         TEXT NOT NULL,
	pin          TEXT NOT NULL DEFAULT '',
	order_key    TEXT NOT NULL DEFAULT '',
	shard_key    TEXT NOT NULL DEFAULT '',
	on_failure   TEXT NOT NULL,
	keep_trying  BOOLEAN NOT NULL DEFAULT FALSE,
	subject      TEXT NOT NULL DEFAULT '',
	actor        TEXT NOT NULL DEFAULT '',
	method       TEXT NOT NULL DEFAULT '',
	request_id   TEXT NOT NULL DEFAULT '',
	metadata     TEXT NOT NULL DEFAULT '',
	status       TEXT NOT NULL,
	final        BOOLEAN NOT NULL DEFAULT FALSE,
	waiting      TEXT NOT NULL DEFAULT '',
	signer       TEXT NOT NULL DEFAULT '',
	nonce        BIGINT NOT NULL DEFAULT 0,
	era          BIGINT NOT NULL DEFAULT 0,
	hash         TEXT NOT NULL DEFAULT '',
	replaces     TEXT NOT NULL DEFAULT '',
	cancel       BOOLEAN NOT NULL DEFAULT FALSE,
	receipt      TEXT NOT NULL DEFAULT '',
	error_class  TEXT NOT NULL DEFAULT '',
	error        TEXT NOT NULL DEFAULT '',
	holds        TEXT NOT NULL DEFAULT '',
	extra_cost   TEXT NOT NULL DEFAULT '0',
	accepted_at  BIGINT NOT NULL,
	updated_at   BIGINT NOT NULL,
	first_sent   BIGINT NOT NULL DEFAULT 0,
	extra        TEXT NOT NULL DEFAULT '' -- what only some chains' transactions have, and the errors that a contract declares, as JSON
);
-- An intent that waits has no signer and no fate. Its status is in no index, so that a new
-- version of the row which changes nothing else stays in its page and leaves the indexes alone.
CREATE INDEX intents_queue ON intents (chain, seq) WHERE signer = '' AND NOT final;
CREATE INDEX intents_open ON intents (chain, signer, nonce) WHERE NOT final;
CREATE INDEX intents_order ON intents (chain, tenant, order_key, seq) WHERE order_key <> '';
CREATE INDEX intents_tenant ON intents (tenant, seq);
CREATE INDEX intents_key ON intents (tenant, idem_key) WHERE idem_key <> '';
CREATE INDEX intents_slot ON intents (chain, signer, nonce);
CREATE INDEX intents_replaces ON intents (replaces) WHERE replaces <> '';

-- What an intent carries and may be executed once, such as a signed action of somebody else. It
-- goes with the intent.
CREATE TABLE claims (
	chain  TEXT NOT NULL,
	name   TEXT NOT NULL,
	intent TEXT NOT NULL,
	PRIMARY KEY (chain, name)
);
CREATE INDEX claims_intent ON claims (intent);

CREATE TABLE slots (
	chain       TEXT NOT NULL,
	era         BIGINT NOT NULL,
	signer      TEXT NOT NULL,
	nonce       BIGINT NOT NULL,
	holder      TEXT NOT NULL,
	intent      TEXT NOT NULL DEFAULT '',
	reservation TEXT NOT NULL DEFAULT '',
	cost        TEXT NOT NULL DEFAULT '0', -- the most that it may take from the signer's balance
	signed      BOOLEAN NOT NULL DEFAULT FALSE,
	consumed    TEXT NOT NULL DEFAULT '',
	block       BIGINT NOT NULL DEFAULT 0,
	block_hash  TEXT NOT NULL DEFAULT '',
	final       BOOLEAN NOT NULL DEFAULT FALSE,
	assigned_at BIGINT NOT NULL,
	sent_at     BIGINT NOT NULL DEFAULT 0,
	PRIMARY KEY (chain, era, signer, nonce)
);
CREATE INDEX slots_open ON slots (chain, era, signer, nonce) WHERE NOT final;
CREATE INDEX slots_nobodys ON slots (assigned_at) WHERE final AND intent = ''; -- for the retention

-- The keys begin with what tells rows apart. A database that has not counted its rows yet takes
-- any index whose first columns are given; one that begins with the chain is then read through
-- for every row.
CREATE TABLE attempts (
	hash        TEXT NOT NULL,
	tag         TEXT NOT NULL DEFAULT '',
	chain       TEXT NOT NULL,
	era         BIGINT NOT NULL,
	signer      TEXT NOT NULL,
	nonce       BIGINT NOT NULL,
	version     BIGINT NOT NULL,
	intent      TEXT NOT NULL DEFAULT '',
	purpose     TEXT NOT NULL,
	raw         TEXT NOT NULL,
	max_fee     TEXT NOT NULL,
	tip         TEXT NOT NULL DEFAULT '',
	gas         BIGINT NOT NULL,
	state       TEXT NOT NULL,
	ambiguous   BOOLEAN NOT NULL DEFAULT FALSE,
	signed_at   BIGINT NOT NULL,
	sent_at     BIGINT NOT NULL DEFAULT 0,
	offers      BIGINT NOT NULL DEFAULT 0,
	refused_at  BIGINT NOT NULL DEFAULT 0,
	error_class TEXT NOT NULL DEFAULT '',
	error       TEXT NOT NULL DEFAULT '',
	term        BIGINT NOT NULL,
	PRIMARY KEY (hash, tag, chain, era),
	UNIQUE (signer, nonce, version, chain, era)
);
CREATE INDEX attempts_intent ON attempts (intent);

CREATE TABLE reservations (
	id          TEXT PRIMARY KEY,
	chain       TEXT NOT NULL,
	era         BIGINT NOT NULL,
	signer      TEXT NOT NULL,
	nonce       BIGINT NOT NULL,
	tenant      TEXT NOT NULL,
	status      TEXT NOT NULL,
	hash        TEXT NOT NULL DEFAULT '',
	created_at  BIGINT NOT NULL,
	expires_at  BIGINT NOT NULL,
	holds       TEXT NOT NULL DEFAULT '' -- the budgets that a fill of its nonce is charged to
);
CREATE INDEX reservations_slot ON reservations (chain, era, signer, nonce);
CREATE INDEX reservations_held ON reservations (chain, signer, expires_at) WHERE status = 'held';
CREATE INDEX reservations_tenant ON reservations (tenant) WHERE status = 'held';
CREATE INDEX reservations_over ON reservations (expires_at) WHERE status <> 'held'; -- for the retention

CREATE TABLE idempotency (
	tenant     TEXT NOT NULL,
	idem_key   TEXT NOT NULL,
	intent     TEXT NOT NULL,
	body_hash  TEXT NOT NULL,
	forgotten  BOOLEAN NOT NULL DEFAULT FALSE,
	outcome    TEXT NOT NULL DEFAULT '', -- of an intent that the retention has deleted
	created_at BIGINT NOT NULL,
	PRIMARY KEY (tenant, idem_key)
);

CREATE TABLE spend (
	scope   TEXT NOT NULL,
	day     TEXT NOT NULL,
	held    TEXT NOT NULL,
	settled TEXT NOT NULL,
	PRIMARY KEY (scope, day)
);
CREATE INDEX spend_day ON spend (day);
CREATE INDEX outbox_gaps ON outbox (at) WHERE kind = 'nonce.gap'; -- for the retention

CREATE TABLE kills (
	scope  TEXT PRIMARY KEY,
	reason TEXT NOT NULL,
	actor  TEXT NOT NULL,
	at     BIGINT NOT NULL
);

CREATE TABLE policies (
	id         TEXT PRIMARY KEY,
	tenant     TEXT NOT NULL DEFAULT '',
	body       TEXT NOT NULL,
	disabled   BOOLEAN NOT NULL DEFAULT FALSE,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL
);

CREATE TABLE webhooks (
	id         TEXT PRIMARY KEY,
	tenant     TEXT NOT NULL,
	url        TEXT NOT NULL,
	events     TEXT NOT NULL DEFAULT '',
	secret     TEXT NOT NULL,
	old_secret TEXT NOT NULL DEFAULT '',
	old_until  BIGINT NOT NULL DEFAULT 0,
	enabled    BOOLEAN NOT NULL DEFAULT TRUE,
	cursor_at  BIGINT NOT NULL DEFAULT 0,
	created_at BIGINT NOT NULL
);

CREATE TABLE deliveries (
	id         TEXT PRIMARY KEY,
	webhook    TEXT NOT NULL,
	cursor_at  BIGINT NOT NULL,
	kind       TEXT NOT NULL DEFAULT '',
	subject    TEXT NOT NULL,
	seq        BIGINT NOT NULL,
	body       TEXT NOT NULL,
	status     TEXT NOT NULL,
	attempts   BIGINT NOT NULL DEFAULT 0,
	next_at    BIGINT NOT NULL DEFAULT 0,
	give_up    BIGINT NOT NULL DEFAULT 0,
	released   BOOLEAN NOT NULL DEFAULT FALSE,
	answer     BIGINT NOT NULL DEFAULT 0,
	last_error TEXT NOT NULL DEFAULT '',
	created_at BIGINT NOT NULL,
	done_at    BIGINT NOT NULL DEFAULT 0,
	UNIQUE (webhook, cursor_at)
);
CREATE INDEX deliveries_due ON deliveries (next_at) WHERE status = 'pending';
CREATE INDEX deliveries_subject ON deliveries (webhook, subject, seq);
CREATE INDEX deliveries_line ON deliveries (webhook, subject, seq) WHERE status = 'pending';

CREATE TABLE webhook_sequences (
	webhook TEXT NOT NULL,
	subject TEXT NOT NULL,
	seq     BIGINT NOT NULL,
	at      BIGINT NOT NULL,
	PRIMARY KEY (webhook, subject)
);

CREATE TABLE audit_log (
	id      SERIAL_KEY,
	at      BIGINT NOT NULL,
	actor   TEXT NOT NULL,
	action  TEXT NOT NULL,
	subject TEXT NOT NULL,
	body    TEXT NOT NULL DEFAULT ''
);

-- Room in the pages for new versions of the rows that change most.
POSTGRES ALTER TABLE intents SET (fillfactor = 60);
POSTGRES ALTER TABLE attempts SET (fillfactor = 70);
POSTGRES ALTER TABLE slots SET (fillfactor = 50);

CREATE VIEW relayer_keys AS
SELECT c.chain || ':' || c.signer AS id, c.chain AS chain_id, c.signer AS address, c.enabled AS enabled,
	c.next_nonce AS next_nonce,
	(SELECT count(*) FROM slots s WHERE s.chain = c.chain AND s.era = c.era AND s.signer = c.signer
		AND s.consumed = '' AND NOT s.final AND s.holder <> 'free') AS pending_count,
	c.last_error AS last_error, c.last_seen AS last_seen_at, c.min_balance AS min_balance_wei
FROM signer_chains c WHERE c.ours;

CREATE VIEW relayer_txs AS
SELECT i.id AS id, i.chain AS chain_id, i.signer AS relayer_address, i.nonce AS nonce, i.hash AS tx_hash,
	CASE
		WHEN i.status IN ('accepted', 'assigned', 'signed') THEN 'allocated'
		WHEN i.status IN ('broadcast', 'unknown') THEN 'broadcasted'
		WHEN i.status IN ('mined', 'confirmed') THEN 'mined'
		WHEN i.status IN ('cancelled', 'expired') THEN 'dropped'
		ELSE i.status
	END AS status,
	i.method AS method, i.subject AS orderbook, i.actor AS trader, i.request_id AS request_id,
	i.error AS error, i.accepted_at AS created_at, i.updated_at AS updated_at
FROM intents i;

CREATE VIEW txidem AS
SELECT k.tenant AS tenant, k.idem_key AS key,
	CASE
		WHEN i.status = 'mined' AND i.receipt LIKE '%"success":false%' THEN 'failed'
		WHEN coalesce(i.status, k.outcome) IN ('confirmed', 'mined') THEN 'done'
		WHEN coalesce(i.status, k.outcome) IN ('reverted', 'failed', 'cancelled', 'expired', 'replaced') THEN 'failed'
		ELSE 'inflight'
	END AS status,
	coalesce(i.hash, '') AS hash, coalesce(i.status, k.outcome) AS outcome, coalesce(i.updated_at, k.created_at) AS updated_at
FROM idempotency k LEFT JOIN intents i ON i.id = k.intent;
