package consensus

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/hedera"
)

func testPool(nums ...int64) pool {
	var p pool
	for _, num := range nums {
		p = append(p, newNode(NodeAddress{ID: hedera.Entity(num), Endpoints: []string{"127.0.0.1:1"}}, false, new(atomic.Bool), slog.New(slog.DiscardHandler)))
	}
	return p
}

func randomSenders(n int) []common.Address {
	random := rand.New(rand.NewPCG(1, 2))
	senders := make([]common.Address, n)
	for i := range senders {
		for j := range senders[i] {
			senders[i][j] = byte(random.Uint32())
		}
	}
	return senders
}

// TestStickyNodesAreAgreed pins the hash: two relays, also of different versions,
// must send one sender's transactions to the same node.
func TestStickyNodesAreAgreed(t *testing.T) {
	p := testPool(3, 4, 5, 6, 7, 8, 9)
	reversed := slices.Clone(p)
	slices.Reverse(reversed)
	for address, want := range map[string]int64{
		"0x67d8d32e9bf1a9968a5ff53b87d777aa8ebbee69": 7,
		"0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266": 8,
		"0x70997970c51812dc3a010c7d01b50e0d17dc79c8": 8,
		"0x0000000000000000000000000000000000000001": 9,
	} {
		sender := common.HexToAddress(address)
		if got := p.best(sender, nil).id.Num; got != want {
			t.Errorf("%s goes to %d, want %d", address, got, want)
		}
		if p.best(sender, nil) != reversed.best(sender, nil) {
			t.Errorf("%s: the order of the list matters", address)
		}
	}
}

func TestRendezvousSpreadsAndMovesLittle(t *testing.T) {
	p := testPool(3, 4, 5, 6, 7, 8, 9, 10)
	senders := randomSenders(8000)
	count := make(map[*node]int)
	moved := 0
	for _, sender := range senders {
		n := p.best(sender, nil)
		count[n]++
		if n != p[2] && p.best(sender, []*node{p[2]}) != n {
			moved++
		}
	}
	for n, c := range count {
		if c < 800 || c > 1200 {
			t.Errorf("node %s has %d of 8000 senders", n.id, c)
		}
	}
	if moved > 0 {
		t.Errorf("%d senders moved though their node is the same", moved)
	}
}

// pass lets time pass in a synctest bubble.
func pass(d time.Duration) { <-time.After(d) }

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := testPool(3, 4)
		sender := common.Address{1}
		first := p.best(sender, nil)
		second := p.best(sender, []*node{first})
		broken := errors.New("broken")

		first.failed(broken, false)
		first.failed(broken, false) // together with the first: counts once
		if p.best(sender, nil) != second {
			t.Error("an unhealthy node is chosen")
		}
		pass(unhealthyMin)
		if p.best(sender, nil) != first {
			t.Error("a node that is due again is not chosen")
		}
		for want := 2 * unhealthyMin; want < 2*unhealthyMax; want *= 2 {
			first.failed(broken, false)
			if got := time.Until(time.Unix(0, first.retryAt.Load())); got != min(want, unhealthyMax) {
				t.Errorf("passed over for %v, want %v", got, min(want, unhealthyMax))
			}
			pass(min(want, unhealthyMax))
		}
		first.worked()
		first.failed(broken, false)
		if got := time.Until(time.Unix(0, first.retryAt.Load())); got != unhealthyMin {
			t.Errorf("after it worked, passed over for %v, want %v", got, unhealthyMin)
		}

		pass(unhealthyMin / 2)
		second.failed(broken, false)
		if p.best(sender, nil) != first {
			t.Error("with no healthy node the first one due is not chosen")
		}
		if p.best(sender, p) != nil {
			t.Error("a tried node is chosen")
		}

		pass(time.Hour)
		first.failed(broken, true)
		first.probed.Store(true)
		pass(time.Hour)
		if p.best(sender, nil) != second {
			t.Error("a lost node is chosen although Run has not found it back")
		}
	})
}

func BenchmarkNodeFor(b *testing.B) {
	var nums []int64
	for num := range int64(30) {
		nums = append(nums, num+3)
	}
	p := testPool(nums...)
	sender := common.Address{1, 2, 3}
	b.ReportAllocs()
	for b.Loop() {
		p.best(sender, nil)
	}
}
