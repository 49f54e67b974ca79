package rpc

import (
	"bytes"
	"net"
	"testing"
	"time"

	"lockstep/internal/relay/capacity"
)

// A flush writes what waited when it began, and tells of what has come meanwhile.
func TestFlushTellsOfMore(t *testing.T) {
	var o *sendQueue
	started := 0
	o = newSendQueue(func() { started++ })
	writes := 0
	conn := &putting{put: func() {
		writes++
		o.put(frame{opcode: opText, payload: []byte("more"), holding: new(capacity.Holding)})
	}}
	o.put(frame{opcode: opText, payload: []byte("first"), holding: new(capacity.Holding)})
	out := &chunkWriter{conn: conn, timeout: patience, buf: make([]byte, 0, scratchSize)}
	for round := 1; round <= 3; round++ {
		if more, last, err := o.flush(out); !more || last || err != nil || writes != round {
			t.Fatalf("round %d: %d writes; more %v, last %v, %v", round, writes, more, last, err)
		}
	}
	conn.put = func() {}
	if more, _, err := o.flush(out); more || err != nil {
		t.Fatalf("there is nothing more to write: %v, %v", more, err)
	}
	if o.put(frame{opcode: opText, payload: []byte("again"), holding: new(capacity.Holding)}); started != 2 {
		t.Errorf("a writer was asked for %d times, want 2: for the first frame and after all were written", started)
	}
}

// putting is a connection that calls put at every write.
type putting struct {
	net.Conn
	put func()
	to  *bytes.Buffer // nil: what is written goes nowhere
}

func (p *putting) SetWriteDeadline(time.Time) error { return nil }
func (p *putting) Write(text []byte) (int, error) {
	p.put()
	if p.to != nil {
		p.to.Write(text)
	}
	return len(text), nil
}
