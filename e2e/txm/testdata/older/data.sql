-- What a manager of the first schema left behind: a signer, an intent that waits, one that is
-- over, its attempt, their keys, a webhook with a delivery, a policy, a budget and a line of the audit.
INSERT INTO signers (signer, created_at) VALUES ('0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266', 1700000000000000);
INSERT INTO signer_chains (chain, signer, ours, created_at) VALUES ('31337', '0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266', TRUE, 1700000000000000);
INSERT INTO intents (id, tenant, chain, kind, idem_key, body_hash, to_account, value, data, gas, speed, simulate, pool, on_failure, holds, status, accepted_at, updated_at)
	VALUES ('tx_waits', '', '31337', 'send', 'old-1', 'aa', '0x00000000000000000000000000000000000c0de1', '0', '6f6c642d310000000000000000000000000000000000000000000000000000f1', 60000, 'standard', 'off', 'default', 'stop', '[{"scope":"gas/tenant/","day":"2023-11-14","amount":500,"limit":1000}]', 'accepted', 1700000000000000, 1700000000000000);
INSERT INTO intents (id, tenant, chain, kind, idem_key, body_hash, to_account, value, data, gas, speed, simulate, pool, on_failure, status, final, error_class, error, accepted_at, updated_at)
	VALUES ('tx_over', '', '31337', 'send', 'old-2', 'bb', '0x00000000000000000000000000000000000c0de1', '0', '6f6c642d320000000000000000000000000000000000000000000000000000f2', 60000, 'standard', 'off', 'default', 'stop', 'cancelled', TRUE, 'cancelled', 'by its caller', 1700000000000000, 1700000000000000);
INSERT INTO idempotency (tenant, idem_key, intent, body_hash, created_at) VALUES ('', 'old-1', 'tx_waits', 'aa', 1700000000000000);
INSERT INTO idempotency (tenant, idem_key, intent, body_hash, created_at) VALUES ('', 'old-2', 'tx_over', 'bb', 1700000000000000);
INSERT INTO idempotency (tenant, idem_key, intent, body_hash, forgotten, created_at) VALUES ('', 'old-0', 'tx_gone', 'cc', TRUE, 1600000000000000);
INSERT INTO attempts (chain, era, hash, signer, nonce, version, intent, purpose, raw, tag, max_fee, tip, gas, state, ambiguous, signed_at, sent_at, offers, error_class, error, term)
	VALUES ('31337', 0, '0xd1', '0x00000000000000000000000000000000000000f3', 7, 1, 'tx_over', 'intent', '02aa', 'a tag', '100', '1', 60000, 'replaced', TRUE, 1700000000000001, 1700000000000002, 3, 'funds', 'none', 4);
INSERT INTO webhooks (id, tenant, url, events, secret, enabled, created_at) VALUES ('wh_old', '', 'http://127.0.0.1:1/hook', '', 'whsec_b2xk', FALSE, 1700000000000000);
INSERT INTO deliveries (id, webhook, cursor_at, subject, seq, body, status, attempts, created_at) VALUES ('msg_old_1', 'wh_old', 1, 'tx_over', 1, '{}', 'pending', 3, 1700000000000000);
INSERT INTO policies (id, body, created_at, updated_at) VALUES ('pol_old', '{"tenantDailyGas":"1000000000000000000"}', 1700000000000000, 1700000000000000);
INSERT INTO spend (scope, day, held, settled) VALUES ('gas/tenant/', '2023-11-14', '500', '100');
INSERT INTO audit_log (at, actor, action, subject) VALUES (1700000000000000, 'ops', 'signer.operate', '31337/0xf39f');
