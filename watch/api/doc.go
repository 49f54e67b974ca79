// Package api is the watchers' face: REST on a listener of each process, with an OpenAPI 3.1 document that is made from this code
// (GET /openapi.json, /openapi.yaml).
//
//	GET  /v1/watches                         what is followed, and how far it is
//	GET  /v1/contracts                       the contracts, by pages
//	GET  /v1/events?cursor=                  what was handed on, in an order that never changes, by pages
//	GET  /v1/events/stream                   the same as server-sent events, as they happen
//	GET  /v1/nodes                           the processes of the fleet
//	GET  /v1/sinks                           how many messages wait for each sink, and since when one takes none
//	POST /v1/watches/{id}/backfill?from=&to= read blocks again
//	GET  /v1/watches/{id}/backfills          how far that is
//	GET  /ui/                                the page, for operators; see console/page
//	GET  /health/readiness                   200, or 503 with reasons
//	GET  /metrics                            for Prometheus
//
// Any process answers for the fleet: it reads the database. What the listener has in common with the transaction manager's is in
// package rest.
//
// # Who may call
//
// A key (Authorization: Bearer lsk_…) of the same table as the transaction manager's, with the same roles (package access):
// read for reading, admin for backfills. Watchers know no tenants, so a key that has one is refused. While there is no key, the
// listener is on loopback, and whoever has the token that it printed at its start is an administrator. The files of the page hold no secret and need no key.
//
// # Words
//
//	cursor of a stream  the place of a message among all messages; who reads on behind the last one that it has seen
//	                    misses nothing
//
// # Bounds
//
// A page has a maximum of 500 rows, a request no body, a process a maximum of 200 streams. A reader of a stream that takes nothing for half a minute is
// gone.
package api
