// Package access says who may call a listener of the transaction manager or of the watchers: keys that callers
// carry, the role of each, and the tenant whose transactions it sees. Both look into the same table, so that one key
// opens both where they share a database.
//
// A key is shown once, when it is made: "lsk_" and 32 random bytes. The ledger keeps its
// SHA-256 alone, which is enough for a key that nobody can guess. Roles include each other:
//
//	read   sees the tenant's transactions; watches, contracts and events
//	send   hands over transactions as well
//	admin  signers, policies, keys, webhooks of all, the kill switch; backfills
//
// A key without a tenant sees all tenants. While there is no key and no password, the listener is on loopback only, and
// whoever gets through its Door is an administrator.
//
// Check remembers answers for a few seconds, so that a request costs no query. A key that
// was revoked through another process is therefore refused after that time at the latest.
//
// Stream is the one way to write events.
package access
