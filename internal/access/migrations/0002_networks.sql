-- Where a key may be used from: networks with commas between them; none for everywhere.

ALTER TABLE api_keys ADD COLUMN networks TEXT NOT NULL DEFAULT '';
