package lease

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"lockstep/internal/ledger"
)

// Lease is one term of one owner.
type Lease struct {
	holder *Holder
	name   string
	term   int64
	lost   chan struct{}

	mu      sync.Mutex
	trusted time.Duration // by now()
	ended   bool
}

// Name returns what is owned.
func (l *Lease) Name() string { return l.name }

// Term returns which reign this is.
func (l *Lease) Term() int64 { return l.term }

// Owner returns the owner's id.
func (l *Lease) Owner() string { return l.holder.owner }

// Lost is closed when another owner has the lease or this one released it.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Trusted reports whether the lease is certainly still held after d.
func (l *Lease) Trusted(d time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.ended && now()+d < l.trusted
}

func (l *Lease) extend(until time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trusted = max(l.trusted, until)
}

func (l *Lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.ended = true
		close(l.lost)
	}
}

// Fence returns the proof of ownership that writes carry.
func (l *Lease) Fence() Fence { return Fence{Name: l.name, Owner: l.holder.owner, Term: l.term} }

// Release gives the lease back. Releasing a lost lease does nothing. After an error the next renewal does it.
func (l *Lease) Release(ctx context.Context) error {
	return l.holder.ReleaseAll(ctx, []*Lease{l})
}

// Fence is an owner's term as a value.
type Fence struct {
	Name, Owner string
	Term        int64
}

// Check fails with ErrDeposed unless the term is still the lease's. Inside a transaction it
// keeps every other owner from taking the lease before the transaction ends.
func (f Fence) Check(ctx context.Context, tx *ledger.Tx) error {
	var one int
	found, err := tx.One(ctx, "SELECT 1 FROM leases WHERE name = $1 AND owner = $2 AND term = $3"+tx.ForShare(),
		[]any{f.Name, f.Owner, f.Term}, &one)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%w: %s, term %d", ErrDeposed, f.Name, f.Term)
	}
	return nil
}

// Preferred returns the node that should own a name, by rendezvous hashing: when a node
// comes or goes, only its own share moves. It returns "" without nodes.
func Preferred(name string, nodes []string) string {
	var best string
	var highest uint64
	for _, node := range nodes {
		if score := Score(name, node); best == "" || score > highest || score == highest && node < best {
			best, highest = node, score
		}
	}
	return best
}

// Score is how much rendezvous hashing prefers a node for a name.
func Score(name, node string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name + "\x00" + node))
	return mix(h.Sum64())
}

// mix spreads FNV's weak high bits (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
