package mirrorrest

import (
	"errors"
	"net/http"
	"strconv"
	"time"
)

// Fault is how to spoil the answer to a request. The zero value leaves it alone.
// Delay and Pause go together with every other field; of the others the first that
// is set counts, in the order in which they stand here.
type Fault struct {
	Delay time.Duration // before anything happens
	Pause time.Duration // in the middle of the answer's body

	Hang       bool          // no answer until the client goes away or the server stops
	Drop       bool          // the connection breaks before the first byte
	Status     int           // answered in place of the real answer, with a body that fits: 404, 429, 500, …
	RetryAfter time.Duration // beside Status: how long a client is told to wait, in whole seconds
	Garbage    bool          // a success whose body is no JSON
	Cut        bool          // the connection breaks in the middle of the body
}

// garbage is what an overloaded proxy may send with a success.
const garbage = "<html><body>upstream request timeout</body></html>"

// spoil applies what comes before the answer. It returns the writer to answer with,
// or nil if nothing is left to answer.
func (s *server) spoil(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	fault := s.Fault(r)
	if fault == (Fault{}) {
		return w
	}
	if fault.Delay > 0 && !s.pause(r, fault.Delay) {
		panic(http.ErrAbortHandler)
	}
	switch {
	case fault.Hang:
		s.pause(r, 0)
		panic(http.ErrAbortHandler)
	case fault.Drop:
		panic(http.ErrAbortHandler)
	}
	spoiled := &spoiledWriter{ResponseWriter: w, fault: fault, pause: func() { s.pause(r, fault.Pause) }}
	switch {
	case fault.Status != 0:
		if fault.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.FormatInt(int64((fault.RetryAfter+time.Second-1)/time.Second), 10))
		}
		s.write(spoiled, fault.Status, statusProblem(fault.Status).body())
		return nil
	case fault.Garbage:
		s.write(spoiled, http.StatusOK, plain(garbage))
		return nil
	}
	return spoiled
}

// statusProblem is what a mirror node says beside a status.
func statusProblem(status int) *problem {
	if status == http.StatusNotFound {
		return notFound()
	}
	return &problem{status: status, messages: []message{{Message: http.StatusText(status)}}}
}

// pause waits, without an end if d is 0. It returns false when the client went away
// or the server stops.
func (s *server) pause(r *http.Request, d time.Duration) bool {
	var over <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
		return true
	case <-s.Closing:
	case <-r.Context().Done():
	}
	return false
}

// spoiledWriter spoils the body, which comes in one piece.
type spoiledWriter struct {
	http.ResponseWriter
	fault Fault
	pause func()
}

// Write implements io.Writer. A body that ends too soon was announced whole.
func (w *spoiledWriter) Write(body []byte) (int, error) {
	if !w.fault.Cut && w.fault.Pause == 0 {
		return w.ResponseWriter.Write(body)
	}
	half := len(body) / 2
	if _, err := w.ResponseWriter.Write(body[:half]); err != nil {
		return 0, err
	}
	if err := http.NewResponseController(w.ResponseWriter).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return half, err
	}
	if w.fault.Pause > 0 {
		w.pause()
	}
	if w.fault.Cut {
		panic(http.ErrAbortHandler)
	}
	n, err := w.ResponseWriter.Write(body[half:])
	return half + n, err
}
