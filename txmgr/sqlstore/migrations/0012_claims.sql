-- What an intent carries and may be executed once, such as a signed action of somebody else. It
-- goes with the intent.

CREATE TABLE claims (
	chain  TEXT NOT NULL,
	name   TEXT NOT NULL,
	intent TEXT NOT NULL,
	PRIMARY KEY (chain, name)
);
CREATE INDEX claims_intent ON claims (intent);
