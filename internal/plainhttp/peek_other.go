//go:build !unix

package plainhttp

// clientGone would have to read. That a client has gone is noticed here when it is answered.
func (c *conn) clientGone() bool { return false }
