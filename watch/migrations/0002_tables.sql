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
