package submit_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/lock"
	"lockstep/submit"
)

// slowChain answers about accounts once it is told to.
type slowChain struct {
	*network
	open chan struct{}
}

func (c *slowChain) Account(ctx context.Context, a common.Address) (submit.Account, bool, error) {
	<-c.open
	return c.network.Account(ctx, a)
}

// L18: a burst whose connections were read in any order reaches the node in order of
// nonces, with no hold-back window, if all of it is here by the time the first could go.
func TestBurstIsPutInOrder(t *testing.T) {
	t.Parallel()
	const n = 30
	for name, order := range map[string]func(i int) uint64{
		"reverse": func(i int) uint64 { return uint64(n - 1 - i) },
		"mixed":   func(i int) uint64 { return uint64(i * 7 % n) },
		"sent":    func(i int) uint64 { return uint64(i) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			net := newNetwork()
			chain := &slowChain{network: net, open: make(chan struct{})}
			s := newSubmitter(t, net, func(o *options) {
				o.chain = chain
				o.lock = lock.DefaultConfig()
			})
			key := newKey(t)
			var all sync.WaitGroup
			for i := range n {
				nonce := order(i)
				entry, err := s.Enter(transfer(t, key, nonce))
				if err != nil {
					t.Fatal(err)
				}
				all.Go(func() {
					if _, err := entry.Finish(t.Context()); err != nil {
						t.Errorf("nonce %d: %v", nonce, err)
					}
				})
			}
			close(chain.open)
			all.Wait()
			if got := net.order(); len(got) != n || !slices.IsSorted(got) {
				t.Errorf("arrived at the node: %v", got)
			}
		})
	}
}
