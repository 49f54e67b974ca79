package rpc

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"time"
)

// muted is what the WebSocket library has of a connection. After the handshake it only reads: what it would write to a client that
// breaks the protocol would come into the middle of a frame that a writer is at.
type muted struct {
	net.Conn
	quiet bool
	spoke bool // it wanted to write, for the client broke the protocol; only for the reader
}

// mute ends the handshake.
func (m *muted) mute() { m.quiet = true }

var errMuted = errors.New("the send queue writes")

// Write implements net.Conn.
func (m *muted) Write(p []byte) (int, error) {
	if !m.quiet {
		return m.Conn.Write(p)
	}
	m.spoke = true
	return 0, errMuted
}

// SetWriteDeadline implements net.Conn.
func (m *muted) SetWriteDeadline(t time.Time) error {
	if m.quiet {
		return nil
	}
	return m.Conn.SetWriteDeadline(t)
}

// hijacker gives a muted connection to the library.
type hijacker struct {
	http.ResponseWriter
	conn *muted
}

// Hijack implements http.Hijacker.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	h.conn = &muted{Conn: conn}
	return h.conn, buffered, err
}
