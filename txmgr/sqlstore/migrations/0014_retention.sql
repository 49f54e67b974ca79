-- What the retention looks for. A row is in these indexes only when it is over.

CREATE INDEX reservations_over ON reservations (expires_at) WHERE status <> 'held';
CREATE INDEX slots_nobodys ON slots (assigned_at) WHERE final AND intent = '';
CREATE INDEX spend_day ON spend (day);
CREATE INDEX outbox_gaps ON outbox (at) WHERE kind = 'nonce.gap';

-- The slots of a chain before it was reset are over.
UPDATE slots SET final = TRUE WHERE NOT final AND era < (SELECT c.era FROM chains c WHERE c.chain = slots.chain);
