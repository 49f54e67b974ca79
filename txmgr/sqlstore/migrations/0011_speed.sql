-- Keys that begin with what tells rows apart. A database that has not counted its rows yet takes
-- any index whose first columns are given; one that begins with the chain is then read through
-- for every row.

CREATE TABLE attempts_new (
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
	error_class TEXT NOT NULL DEFAULT '',
	error       TEXT NOT NULL DEFAULT '',
	term        BIGINT NOT NULL,
	PRIMARY KEY (hash, tag, chain, era),
	UNIQUE (signer, nonce, version, chain, era)
);
INSERT INTO attempts_new (hash, tag, chain, era, signer, nonce, version, intent, purpose, raw, max_fee, tip, gas, state, ambiguous, signed_at, sent_at, offers,
	error_class, error, term)
SELECT hash, tag, chain, era, signer, nonce, version, intent, purpose, raw, max_fee, tip, gas, state, ambiguous, signed_at, sent_at, offers,
	error_class, error, term FROM attempts;
DROP TABLE attempts;
ALTER TABLE attempts_new RENAME TO attempts;
CREATE INDEX attempts_intent ON attempts (intent);

-- An intent that waits has no signer and no fate. Its status is in no index, so that a new
-- version of the row which changes nothing else stays in its page and leaves the indexes alone.
DROP INDEX intents_queue;
CREATE INDEX intents_queue ON intents (chain, seq) WHERE signer = '' AND NOT final;

-- Room in the pages for those versions.
POSTGRES ALTER TABLE intents SET (fillfactor = 60);
POSTGRES ALTER TABLE attempts SET (fillfactor = 70);
POSTGRES ALTER TABLE slots SET (fillfactor = 50);
