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
