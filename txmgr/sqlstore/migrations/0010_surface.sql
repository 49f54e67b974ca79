-- What webhooks need besides.

ALTER TABLE webhooks ADD COLUMN old_until BIGINT NOT NULL DEFAULT 0;
ALTER TABLE deliveries ADD COLUMN kind TEXT NOT NULL DEFAULT '';
ALTER TABLE deliveries ADD COLUMN answer BIGINT NOT NULL DEFAULT 0;
ALTER TABLE deliveries ADD COLUMN give_up BIGINT NOT NULL DEFAULT 0;
ALTER TABLE deliveries ADD COLUMN released BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX deliveries_line ON deliveries (webhook, subject, seq) WHERE status = 'pending';

CREATE TABLE webhook_sequences (
	webhook TEXT NOT NULL,
	subject TEXT NOT NULL,
	seq     BIGINT NOT NULL,
	at      BIGINT NOT NULL,
	PRIMARY KEY (webhook, subject)
);
