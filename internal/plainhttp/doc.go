// Package plainhttp serves the plain requests of HTTP/1.1 itself, and leaves all others
// to net/http.
//
// A client of JSON-RPC sends the same kind of request all day: a POST with a short head
// and a body of a known length. What net/http does for a request of any kind (a map of
// headers, a buffered reader and writer, a context, a goroutine that watches the
// connection) costs more than answering most of them. So every connection begins in a
// loop that reads a request into one buffer, has it answered, and writes the answer in
// one piece.
//
// # What is plain
//
// POST, HTTP/1.1, a target of a path in plain characters that the Handler takes; lines
// that end in CR LF; names of tokens and values of printable ASCII; one Host, one
// Content-Length of digits within the limit; a Connection of keep-alive or none; none of
// Transfer-Encoding, Content-Encoding, Expect, Upgrade and Trailer; a head of a maximum of
// 2 KB; and all of it there within a second.
//
// Nothing else is judged here. At the first request that is not plain, or not known to
// be, the connection goes to the http.Server that serves the Listener, until its end, with
// everything that was read and not answered before what is still to come. So net/http is
// the one judge of what is wrong, slow or unusual, and there is no request that it would
// read in another way: what is taken here is a subset of what it takes, and a test and a
// fuzz target hold the two against each other.
//
// # Use
//
//	server := &http.Server{Handler: handler, IdleTimeout: time.Minute}
//	listener := plainhttp.New(ctx, ln, plainhttp.Config{Server: server, Handler: handler, Logger: log})
//	go listener.Run()
//	err := server.Serve(listener)
//
// To stop, shut the http.Server down, which closes the Listener, and then Wait for the
// requests in progress, or Abort them.
//
// # What a connection holds
//
// An idle one: a goroutine and a buffer of 2 KB. One whose request has released its body
// (Request.Forget): no buffer. One whose request is answered later (Handler.ServePlain): no
// goroutine either; one of the Listener looks for all of them whether the client is still there.
// Connections that are not of TCP go to net/http at once.
//
// # Words
//
//	plain request  one of the form that is read here
//	hand-over      the move of a connection to net/http, until its end
package plainhttp
