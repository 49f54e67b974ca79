package plainhttp

import "net"

// replayed is a connection of TCP of which a part was read already. It has none of the
// methods of net.TCPConn that would pass by that part.
type replayed struct {
	net.Conn
	head []byte
}

// Read reads what was read already, then what is still to come.
func (r *replayed) Read(p []byte) (int, error) {
	if len(r.head) == 0 {
		return r.Conn.Read(p)
	}
	n := copy(p, r.head)
	if r.head = r.head[n:]; len(r.head) == 0 {
		r.head = nil // it is memory of a connection that may last
	}
	return n, nil
}

// CloseWrite says that nothing more will come; servers look for it.
func (r *replayed) CloseWrite() error {
	if tcp, ok := r.Conn.(*net.TCPConn); ok {
		return tcp.CloseWrite()
	}
	return nil
}
