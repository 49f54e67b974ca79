-- What is followed, how far, and what was found.

-- Which plan the fleet follows: the newest. A process that has another owns nothing.
CREATE TABLE watch_plans (
	version     BIGINT PRIMARY KEY,
	digest      TEXT NOT NULL,
	at          BIGINT NOT NULL,
	instance_id TEXT NOT NULL
);

-- body is a watch as it was followed last, to compare the next plan with. out says that no plan names it any more.
CREATE TABLE watches (
	name       TEXT PRIMARY KEY,
	chain      BIGINT NOT NULL,
	body       TEXT NOT NULL,
	out        INTEGER NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL
);

-- The chain as the fleet sees it. head is the newest block that was linked with its parents, safe the highest that cannot be replaced any more, best the
-- highest that any endpoint has shown, best_at when that was (microseconds since 1970), pace the milliseconds from one block to the next, 0 for unknown.
CREATE TABLE watch_chains (
	chain   BIGINT PRIMARY KEY,
	genesis TEXT NOT NULL, -- hash of block 0; empty where nobody serves it
	head    BIGINT NOT NULL,
	safe    BIGINT NOT NULL,
	says    INTEGER NOT NULL, -- the chain itself has said what is final
	fork    BIGINT NOT NULL,
	best    BIGINT NOT NULL,
	best_at BIGINT NOT NULL,
	pace    BIGINT NOT NULL,
	owner   TEXT NOT NULL
);

CREATE TABLE watch_blocks (
	chain  BIGINT NOT NULL,
	number BIGINT NOT NULL,
	hash   TEXT NOT NULL,
	parent TEXT NOT NULL,
	time   BIGINT NOT NULL,
	PRIMARY KEY (chain, number)
);

-- Each row is a reorganisation: blocks above the ancestor were replaced.
CREATE TABLE watch_forks (
	chain    BIGINT NOT NULL,
	id       BIGINT NOT NULL,
	ancestor BIGINT NOT NULL,
	at       BIGINT NOT NULL,
	PRIMARY KEY (chain, id)
);

-- How far each unit is. owner is the fence: only who stands there may write for the unit.
CREATE TABLE cursors (
	unit       TEXT PRIMARY KEY,
	chain      BIGINT NOT NULL,
	next_block BIGINT NOT NULL,
	parent     TEXT NOT NULL,
	fork       BIGINT NOT NULL,
	owner      TEXT NOT NULL,
	parked     INTEGER NOT NULL, -- of a factory that is not followed any more
	checked    BIGINT NOT NULL   -- highest block that was read when it could not be replaced any more
);

CREATE TABLE contracts (
	watch            TEXT NOT NULL,
	chain            BIGINT NOT NULL,
	address          TEXT NOT NULL,
	unit             TEXT NOT NULL,
	kind             TEXT NOT NULL,
	discovered_at    BIGINT NOT NULL,
	discovered_block BIGINT NOT NULL,
	discovered_by    TEXT NOT NULL,
	next_block       BIGINT NOT NULL,
	merged           INTEGER NOT NULL,
	removed          INTEGER NOT NULL, -- 1: its discovery was; 2: the plan does not name it any more, and next_block is where it was
	stale            INTEGER NOT NULL, -- its status and fields have to be worked out again
	status           TEXT NOT NULL,
	fields           TEXT NOT NULL,
	payer            TEXT,
	payee            TEXT,
	amount           TEXT,
	seq              BIGINT NOT NULL,
	created_at       BIGINT NOT NULL,
	updated_at       BIGINT NOT NULL,
	PRIMARY KEY (watch, chain, address)
);
CREATE INDEX contracts_unit ON contracts (unit);
CREATE INDEX contracts_unmerged ON contracts (chain) WHERE merged = 0 AND removed = 0;
CREATE INDEX contracts_stale ON contracts (chain) WHERE stale = 1;
CREATE INDEX contracts_found ON contracts (watch, discovered_by);

CREATE TABLE chain_events (
	watch        TEXT NOT NULL,
	chain        BIGINT NOT NULL,
	block_hash   TEXT NOT NULL,
	log_index    BIGINT NOT NULL,
	block_number BIGINT NOT NULL,
	time         BIGINT NOT NULL,
	tx_hash      TEXT NOT NULL,
	address      TEXT NOT NULL,
	event        TEXT NOT NULL,
	signature    TEXT NOT NULL,
	args         TEXT NOT NULL,
	extra        TEXT NOT NULL, -- what else its messages have, as JSON: raw topics and data, undecoded, bytes of texts; empty for nothing
	unit         TEXT NOT NULL,
	removed      INTEGER NOT NULL,
	incarnation  BIGINT NOT NULL,
	announced    INTEGER NOT NULL,
	processed_at BIGINT NOT NULL,
	processed_by TEXT NOT NULL,
	PRIMARY KEY (watch, chain, block_hash, log_index)
);
CREATE INDEX chain_events_unit ON chain_events (unit, block_number);
CREATE INDEX chain_events_contract ON chain_events (watch, chain, address, block_number, log_index);
CREATE INDEX chain_events_waiting ON chain_events (watch, block_number) WHERE announced = 0 AND removed = 0;

-- How far each sink has got in the outbox of each unit.
CREATE TABLE sink_cursors (
	sink     TEXT NOT NULL,
	unit     TEXT NOT NULL,
	position BIGINT NOT NULL,
	PRIMARY KEY (sink, unit)
);

-- Messages that a sink can never take.
CREATE TABLE watch_settled (
	sink     TEXT NOT NULL,
	delivery TEXT NOT NULL,
	why      TEXT NOT NULL,
	at       BIGINT NOT NULL,
	PRIMARY KEY (sink, delivery)
);

CREATE TABLE nodes (
	instance_id      TEXT PRIMARY KEY,
	owner            TEXT NOT NULL,
	status           TEXT NOT NULL,
	partition_number BIGINT NOT NULL,
	total_partitions BIGINT NOT NULL,
	last_heartbeat   BIGINT NOT NULL,
	current_block    BIGINT NOT NULL,
	contracts        BIGINT NOT NULL,
	leader           INTEGER NOT NULL,
	version          TEXT NOT NULL,
	plan             TEXT NOT NULL,
	created_at       BIGINT NOT NULL,
	updated_at       BIGINT NOT NULL
);

-- The names under which older services know these tables.
CREATE VIEW escrow_registry AS
	SELECT c.address, c.chain AS chain_id, c.discovered_at, c.discovered_block AS discovered_block_number, c.status,
		(CASE WHEN c.merged = 1 THEN u.next_block ELSE c.next_block END) - 1 AS last_monitored_block,
		c.payer, c.payee, c.amount, c.created_at, c.updated_at
	FROM contracts c JOIN cursors u ON u.unit = c.unit WHERE c.kind <> 'factory' AND c.removed = 0;
CREATE VIEW escrow_records AS
	SELECT watch, address, chain AS chain_id, status, payer, payee, amount, fields, created_at, updated_at
	FROM contracts WHERE kind <> 'factory' AND removed = 0;
CREATE VIEW relayer_instances AS
	SELECT instance_id, partition_number, total_partitions, last_heartbeat, current_block, contracts AS escrows_monitored, status, created_at, updated_at
	FROM nodes;
CREATE VIEW processed_events AS
	SELECT tx_hash || ':' || log_index AS event_id, event AS event_type, address AS contract_address, block_number, processed_at, processed_by AS processed_by_instance
	FROM chain_events WHERE removed = 0;

-- A backfill reads blocks again for the contracts of a watch. Each unit that had some has a row, which its owner works off.

CREATE TABLE backfills (
	id         TEXT NOT NULL,
	unit       TEXT NOT NULL,
	chain      BIGINT NOT NULL,
	watch      TEXT NOT NULL,
	from_block BIGINT NOT NULL,
	to_block   BIGINT NOT NULL,
	next_block BIGINT NOT NULL,
	repeats    INTEGER NOT NULL,
	acts       INTEGER NOT NULL,
	messages   BIGINT NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL,
	PRIMARY KEY (id, unit)
);
CREATE INDEX backfills_open ON backfills (chain, unit) WHERE next_block <= to_block;

-- The tables of single events, and views of them: each name and column is settled once. signature is an event's; a row without a watch is the view of an
-- event in all watches, one whose signature begins with "contracts of" the view of the contracts that a factory's event has announced.
CREATE TABLE watch_tables (
	watch     TEXT NOT NULL,
	signature TEXT NOT NULL,
	name      TEXT NOT NULL UNIQUE,
	columns   TEXT NOT NULL,    -- JSON: those behind the ones that all tables have
	live      INTEGER NOT NULL, -- new events are written to it
	made      BIGINT NOT NULL,  -- the plan's version; it orders the tables of a view
	PRIMARY KEY (watch, signature)
);

-- Up to where the stored events of a unit were written to the tables of a watch. A unit that is done has no row.
CREATE TABLE watch_fills (
	watch     TEXT NOT NULL,
	unit      TEXT NOT NULL,
	block     BIGINT NOT NULL,
	log_index BIGINT NOT NULL,
	PRIMARY KEY (watch, unit)
);
