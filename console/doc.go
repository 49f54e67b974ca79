// Package console is the operator's listener (ADMIN_ADDRESS): who holds which lane, the switch of the order,
// the settings, profiles, and a page that shows all of it in a browser (/ui). In
// `lockstep dev` the same page is a developer's view of the chain.
//
//	GET  /locks                       the lanes in use
//	POST /locks/{sender}/release      end the turn of a sender's holder
//	GET, PUT /ordering                whether the order is kept; switch it
//	POST /reload                      read the settings again
//	GET  /debug/pprof/                profiles of Go
//
//	GET  /ui/                         the page; its parts lie beside it (/ui/app.js …)
//	GET  /ui/about                    what this process is, and whether the caller has the token
//	GET  /ui/events                   State as server-sent events, whenever it has changed
//	GET  /ui/steps                    what happened to transactions, from a number on
//	GET  /ui/history                  rates and times of the last minute, or of up to an hour
//	POST /ui/rpc                      JSON-RPC, as at the relay's own port
//	GET  /ui/records/{hash}           the lifecycle record of a transaction
//	POST /ui/decode                   calls, logs and errors in words, by an ABI or by known signatures
//	GET  /ui/mirror/{path}            of a development network: what its mirror node says
//
// # Who gets in
//
// Where the token is switched off by name, only requests for a loopback address get in, so that no name server can
// point somebody else's page here. With one (ADMIN_TOKEN), every request needs it as a bearer token, but for the
// files of the page and for /ui/about, which hold no secret. What a page of another origin asks for is
// refused, but for those files. The page keeps its token in the storage of its tab.
//
// # Bounds
//
// MaxStreams pages can listen at the same time; State is made once a second for all of them,
// and not at all while nobody listens; it has the maxLanes lanes in which most transactions wait. The history has a sample of
// every other second of an hour. A request's body has a maximum of 1 MB. A stream whose client does not
// read ends as access.Stream says.
//
// # Words
//
//	lane      see package lock
//	state     what the page shows of the relay at one moment
//	stream    the connection over which a page hears of new states
//	upstream  see package internal/outage
package console
