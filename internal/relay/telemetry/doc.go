// Package telemetry sends traces to an OpenTelemetry collector: how long each part of a call
// took, from the client's request to the mirror node.
//
//	eth_sendRawTransaction        the server's span: one HTTP request or WebSocket message
//	├─ lock wait                  from the place in line to the turn
//	├─ precheck                   facts of the mirror node, and what is decided on them
//	├─ consensus submit           to the acceptance by a node
//	│  └─ offer                   one attempt at one node
//	├─ receipt                    to the verdict
//	└─ mirror contracts/results…  one request to a mirror node
//
// A Tracer begins the server's span, and puts it into the context. Whoever has that context
// begins a span below it with Start; so no part has to be given a Tracer. Without a span in the
// context, which is always so while tracing is off, Start does nothing and allocates nothing.
//
// # Other services
//
// A trace goes through several services by the header traceparent (W3C Trace Context). Begin
// takes the one of a caller that is believed: it decides whether the trace is recorded, so a
// stranger's is not taken. Inject writes one for the next service.
//
// # Bounds
//
// A maximum of queueSize spans wait to be sent; those beyond are dropped. A span has a maximum of
// maxAttributes attributes of maxText bytes each. No call waits for the collector.
//
// # Words
//
//	span       one piece of work with its beginning and end
//	trace      the spans of one request, through all services
//	recorded   a span that is sent to the collector; a sampler decides that at the beginning of a trace
//	exemplar   the trace id that a histogram shows beside one of its observations
package telemetry
