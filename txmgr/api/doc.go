// Package api is the transaction manager's face: REST on a listener of its own, with an
// OpenAPI 3.1 document that is made from this code (GET /openapi.json, /openapi.yaml).
//
//	POST /v1/transactions            an intent; Idempotency-Key, ?wait=broadcast|mined|confirmed&timeout=10s
//	GET  /v1/transactions/{id}       what became of it
//	GET  /v1/transactions/stream     everything that happens, as server-sent events
//	POST /v1/nonces                  a nonce for callers who sign themselves
//	POST /internal/execute           one call for short-lived runtimes: the stored result, or the running one's
//	POST /evm/…                      the older spelling, with bodies as its callers know them
//	GET  /ui/                        the page, for operators; see console/page
//	GET  /health/readiness           200 when the ledger and at least one chain can be used
//
// What the listener has in common with the watchers' is in package rest: who gets in, what an error looks like, streams. The older spelling
// answers its own bodies instead. Nothing here signs a message or a digest.
//
// # Who may call
//
// A key (Authorization: Bearer lsk_…) has a role and a tenant; see internal/access. Internal
// callers may use Basic. While there is neither key nor password, the listener is on
// loopback, and whoever has the token that it printed at its start is an administrator (access.Door). No answer
// allows other origins. The page asks from the listener's own origin. Its files hold no secret and need no key.
//
// # Bounds
//
// A body has a maximum per operation, a wait a maximum of a minute, a page a maximum of 500
// rows, and streams a maximum number at once.
//
// # Words
//
//	older spelling  the paths below /evm/, with the bodies that their callers know
package api
