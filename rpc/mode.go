package rpc

// mode is how a call runs; doc.go has the table.
type mode uint8

const (
	// inline: the call is answered where the request is read. Its handler never waits, or the call was refused.
	inline mode = iota
	// direct: the call runs where the request is read, and may wait.
	direct
	// pooled: the call runs in a goroutine of its own; the number of such calls is bounded.
	pooled
	// ordered: the call has taken a place in line. Its second phase runs in a goroutine of its own
	// when its turn comes.
	ordered
	// detached: like ordered, but the call waits without a time-out and without the request's memory.
	detached
)

// modeOf decides how a call of the method runs.
func (ex *exchange) modeOf(m *Method) mode {
	alone, http := !ex.batch, ex.endpoint.transport == TransportHTTP
	switch {
	case m.Inline:
		return inline
	case m.Enter != nil && alone && !http:
		return detached
	case m.Enter != nil:
		return ordered
	case alone && http:
		return direct
	}
	return pooled
}

// mode returns the mode of the only call of a request; of a batch it returns inline.
func (ex *exchange) mode() mode {
	if ex.batch || len(ex.calls) == 0 {
		return inline
	}
	return ex.calls[0].mode
}
