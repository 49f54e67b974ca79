package rpc

// clientCounts counts connections by client, and knows the maximum over all clients without looking at each.
type clientCounts struct {
	of      map[string]int // the connections of each client that has any
	clients map[int]int    // how many clients have that many connections
	maximum int
}

func newClientCounts() clientCounts {
	return clientCounts{of: make(map[string]int), clients: make(map[int]int)}
}

// add counts one more connection of a client, and returns the maximum.
func (c *clientCounts) add(client string) (maximum int) {
	n := c.of[client] + 1
	c.move(client, n-1, n)
	c.maximum = max(c.maximum, n)
	return c.maximum
}

// remove counts one less of a client that has one, and returns the maximum.
func (c *clientCounts) remove(client string) (maximum int) {
	n := c.of[client] - 1
	c.move(client, n+1, n)
	if c.clients[c.maximum] == 0 {
		c.maximum = n // this client was the last one that had the maximum
	}
	return c.maximum
}

func (c *clientCounts) move(client string, from, to int) {
	if c.clients[from]--; c.clients[from] <= 0 {
		delete(c.clients, from)
	}
	if to == 0 {
		delete(c.of, client)
		return
	}
	c.of[client] = to
	c.clients[to]++
}
