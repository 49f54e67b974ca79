-- What only some chains' transactions have, and the errors that a contract declares, as JSON.
ALTER TABLE intents ADD COLUMN extra TEXT NOT NULL DEFAULT '';
-- The budgets that a fill of its nonce is charged to.
ALTER TABLE reservations ADD COLUMN holds TEXT NOT NULL DEFAULT '';
-- Who brought an account whose key is not here.
ALTER TABLE signer_chains ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
