package rpc

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// The maximum is that of all clients, whatever order connections come and go in.
func TestClientCountsKnowTheMaximum(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	c, want := newClientCounts(), make([]int, 5)
	for step := range 5000 {
		i := random.IntN(len(want))
		client, got := fmt.Sprint(i), 0
		if want[i] > 0 && random.IntN(2) == 0 {
			want[i]--
			got = c.remove(client)
		} else {
			want[i]++
			got = c.add(client)
		}
		if most := slices.Max(want); got != most || c.of[client] != want[i] {
			t.Fatalf("step %d: the maximum is %d of %v, and %s has %d", step, got, want, client, c.of[client])
		}
	}
	for i, n := range want {
		for range n {
			c.remove(fmt.Sprint(i))
		}
	}
	if len(c.of) != 0 || len(c.clients) != 0 || c.maximum != 0 {
		t.Errorf("something is left: %+v", c)
	}
}
