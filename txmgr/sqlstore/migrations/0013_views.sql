-- The view of idempotency keys tells how a transaction ended that the retention has deleted, and that one in a block has failed.
-- The view of signers counts no slot that is free: nothing is pending there.

ALTER TABLE idempotency ADD COLUMN outcome TEXT NOT NULL DEFAULT '';

DROP VIEW txidem;
CREATE VIEW txidem AS
SELECT k.tenant AS tenant, k.idem_key AS key,
	CASE
		WHEN i.status = 'mined' AND i.receipt LIKE '%"success":false%' THEN 'failed'
		WHEN coalesce(i.status, k.outcome) IN ('confirmed', 'mined') THEN 'done'
		WHEN coalesce(i.status, k.outcome) IN ('reverted', 'failed', 'cancelled', 'expired', 'replaced') THEN 'failed'
		WHEN k.forgotten THEN 'done' -- its outcome was not kept then
		ELSE 'inflight'
	END AS status,
	coalesce(i.hash, '') AS hash, coalesce(i.status, k.outcome) AS outcome, coalesce(i.updated_at, k.created_at) AS updated_at
FROM idempotency k LEFT JOIN intents i ON i.id = k.intent;

DROP VIEW relayer_keys;
CREATE VIEW relayer_keys AS
SELECT c.chain || ':' || c.signer AS id, c.chain AS chain_id, c.signer AS address, c.enabled AS enabled,
	c.next_nonce AS next_nonce,
	(SELECT count(*) FROM slots s WHERE s.chain = c.chain AND s.era = c.era AND s.signer = c.signer
		AND s.consumed = '' AND NOT s.final AND s.holder <> 'free') AS pending_count,
	c.last_error AS last_error, c.last_seen AS last_seen_at, c.min_balance AS min_balance_wei
FROM signer_chains c WHERE c.ours;
