package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"lockstep/internal/ledger"
	"lockstep/internal/sleep"
)

// DefaultTTL is how long a lease lives without renewal, unless NewHolder is told otherwise.
const DefaultTTL = 10 * time.Second

// ErrHeld says that another owner has the lease.
var ErrHeld = errors.New("another owner holds the lease")

// ErrDeposed says that the lease's term is over: another owner has had it since.
var ErrDeposed = errors.New("the lease's term is over")

// Holder holds the leases of one process.
type Holder struct {
	db       *ledger.DB
	kind     string
	instance string
	owner    string
	ttl      time.Duration // how long a lease lives without renewal
	log      *slog.Logger

	mu     sync.Mutex
	held   map[string]*Lease
	taking map[string]int // how many calls are acquiring a name
}

// NewHolder returns the holder of a node. The owner id is the instance's name and a random
// boot id, so that a restarted process is another owner. A lease lives for ttl without renewal; 0 stands for DefaultTTL.
func NewHolder(db *ledger.DB, kind, instance string, ttl time.Duration, log *slog.Logger) *Holder {
	return &Holder{
		db: db, kind: kind, instance: instance, owner: instance + "/" + uuid.NewString()[:8],
		ttl: cmp.Or(ttl, DefaultTTL), log: log, held: map[string]*Lease{}, taking: map[string]int{},
	}
}

// renewal is how often all leases are renewed.
func (k *Holder) renewal() time.Duration { return k.ttl * 3 / 10 }

// validUntil is until when a lease may be trusted that was asked for at a time: the holder stops before others may start.
func (k *Holder) validUntil(asked time.Duration) time.Duration { return asked + k.ttl - k.ttl/5 }

// Owner returns the owner id of this process.
func (k *Holder) Owner() string { return k.owner }

func nodePrefix(kind string) string { return "node:" + kind + ":" }

// Register makes this process a living node. A living process of the same name is given
// the time of one lease to end, as it does when this one replaces it; then Register fails
// with ErrHeld.
func (k *Holder) Register(ctx context.Context) error {
	if err := k.db.OwnerLock(k.owner); err != nil {
		return err
	}
	limit := now() + k.ttl + k.renewal()
	for {
		last := now() > limit // before the question: what is slow is not held
		_, err := k.Acquire(ctx, nodePrefix(k.kind)+k.instance)
		if !errors.Is(err, ErrHeld) {
			return err
		}
		if last {
			return fmt.Errorf("another living process has the INSTANCE_ID %q: %w", k.instance, err)
		}
		if !sleep.For(ctx, k.renewal()/6) {
			return ctx.Err()
		}
	}
}

// Living reports whether the ledger has refused no write and has taken a sign of life of this process in the time of three leases: a disk that is full, or a standby, answers
// every question and takes none. Before Register there is nothing to tell.
func (k *Holder) Living() bool {
	k.mu.Lock()
	l := k.held[nodePrefix(k.kind)+k.instance]
	k.mu.Unlock()
	return !k.db.Refuses() && (l == nil || l.Trusted(-2*k.ttl))
}

// Run renews all leases until the context ends, then releases them.
func (k *Holder) Run(ctx context.Context) error {
	for sleep.For(ctx, k.renewal()) {
		renewed, cancel := context.WithTimeout(ctx, k.renewal())
		if err := k.renew(renewed); err != nil && ctx.Err() == nil && !ledger.IsDown(err) {
			k.log.Warn("leases were not renewed", "error", err)
		}
		cancel()
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.renewal())
	defer cancel()
	return k.releaseAll(last)
}

// Acquire takes a free or expired lease, or one whose owner is certainly dead.
// It returns ErrHeld if another owner has it, and this holder's own lease if it has it.
func (k *Holder) Acquire(ctx context.Context, name string) (*Lease, error) {
	k.mu.Lock()
	mine := k.held[name]
	k.mu.Unlock()
	if mine != nil && mine.Trusted(0) {
		return mine, nil
	}
	taken, err := k.AcquireAll(ctx, []string{name}, nil)
	if err == nil && len(taken) == 0 {
		err = fmt.Errorf("%w: %s", ErrHeld, name)
	}
	if err != nil {
		return nil, err
	}
	return taken[0], nil
}

// AcquireAll takes those of some leases that are free, expired, or left by an owner that is certainly dead, in one
// transaction. then is called in it with the names that were taken, so that what they protect can be marked as this owner's at
// the same moment; it may be called again if the transaction is, and may be nil. The leases that others hold are passed over.
func (k *Holder) AcquireAll(ctx context.Context, names []string, then func(context.Context, *ledger.Tx, []string) error) ([]*Lease, error) {
	defer k.take(names...)()
	before := now()
	var terms map[string]int64
	err := k.db.WriteAt(ctx, func(tx *ledger.Tx, clock int64) error {
		terms = map[string]int64{}
		for part := range slices.Chunk(names, 200) {
			if err := k.acquirePart(ctx, tx, clock, part, terms); err != nil {
				return err
			}
		}
		if then == nil {
			return nil
		}
		return then(ctx, tx, slices.Sorted(maps.Keys(terms)))
	})
	if err != nil {
		return nil, err
	}
	list := make([]*Lease, 0, len(terms))
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, term := range terms {
		if old := k.held[name]; old != nil {
			old.end()
		}
		l := &Lease{holder: k, name: name, term: term, trusted: k.validUntil(before), lost: make(chan struct{})}
		k.held[name] = l
		list = append(list, l)
	}
	return list, nil
}

// acquirePart takes some leases in one statement: an upsert that passes over what others hold.
func (k *Holder) acquirePart(ctx context.Context, tx *ledger.Tx, clock int64, names []string, terms map[string]int64) error {
	free := []string{"", k.owner} // owners from whom a lease is taken before it expires
	owners, err := ledger.All(ctx, tx, "SELECT DISTINCT owner FROM leases WHERE name IN "+ledger.List(1, len(names)), ledger.Args(names), ledger.Text)
	if err != nil {
		return err
	}
	for _, owner := range owners {
		if k.db.OwnerDead(owner) && owner != k.owner {
			free = append(free, owner)
		}
	}
	rows := make([]any, 0, 4*len(names))
	for _, name := range slices.Sorted(slices.Values(names)) { // all lock them in one order
		rows = append(rows, name, k.owner, int64(1), clock+k.ttl.Microseconds())
	}
	now := len(rows) + 1
	return tx.Query(ctx, "INSERT INTO leases (name, owner, term, expires_at) VALUES "+ledger.Rows(len(names), 4)+
		" ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, term = leases.term + 1, expires_at = excluded.expires_at"+
		" WHERE leases.expires_at <= $"+ledger.Number(now)+" OR leases.owner IN "+ledger.List(now+1, len(free))+" RETURNING name, term",
		slices.Concat(rows, []any{clock}, ledger.Args(free)), into(terms))
}

// into reads terms by the names of their leases.
func into(terms map[string]int64) func(ledger.Row) error {
	return func(r ledger.Row) error {
		var name string
		var term int64
		err := r.Scan(&name, &term)
		terms[name] = term
		return err
	}
}

// take notes that names are being acquired, until the function that it returns is called.
func (k *Holder) take(names ...string) (taken func()) {
	count := func(by int) {
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, name := range names {
			if k.taking[name] += by; k.taking[name] == 0 {
				delete(k.taking, name)
			}
		}
	}
	count(1)
	return func() { count(-1) }
}

// renew renews every lease of this owner in one statement. Those that it no longer has are lost at once, and those that nobody
// here has are given back: a release that failed, or an acquisition whose answer was lost, has left them.
func (k *Holder) renew(ctx context.Context) error {
	k.mu.Lock()
	asked := maps.Clone(k.held)
	k.mu.Unlock()
	before := now()
	var terms map[string]int64
	err := k.db.WriteAt(ctx, func(tx *ledger.Tx, clock int64) error {
		terms = map[string]int64{}
		if err := tx.Query(ctx, "UPDATE leases SET expires_at = $1 WHERE owner = $2 RETURNING name, term", []any{clock + k.ttl.Microseconds(), k.owner}, into(terms)); err != nil {
			return err
		}
		return k.free(ctx, tx, k.loose(terms))
	})
	if err != nil {
		return err
	}
	k.mu.Lock()
	for name, l := range asked {
		if term, ok := terms[name]; ok && term == l.term {
			l.extend(k.validUntil(before))
			continue
		}
		l.end()
		if k.held[name] == l {
			delete(k.held, name)
		}
	}
	k.mu.Unlock()
	return k.db.Mark(ctx)
}

// loose returns those of this owner's terms that nobody here has, nor is about to have. Their rows are locked, so that who begins to
// acquire one waits.
func (k *Holder) loose(terms map[string]int64) map[string]int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	left := maps.Clone(terms)
	maps.DeleteFunc(left, func(name string, term int64) bool {
		l := k.held[name]
		return k.taking[name] > 0 || l != nil && l.term == term
	})
	return left
}

// free writes that terms are over. It passes over those that are others' by now.
func (k *Holder) free(ctx context.Context, tx *ledger.Tx, terms map[string]int64) error {
	_, err := ledger.Values(ctx, tx, "UPDATE leases SET owner = '', expires_at = 0 FROM (VALUES %s) AS v WHERE leases.name = v.column1 AND leases.term = CAST(v.column2 AS BIGINT) AND leases.owner = v.column3",
		slices.Sorted(maps.Keys(terms)), func(name string) []any { return []any{name, terms[name], k.owner} }, nil)
	return err
}

// ReleaseAll gives leases back in one transaction. Those that were lost meanwhile are passed over. After an error the
// next renewal does it.
func (k *Holder) ReleaseAll(ctx context.Context, leases []*Lease) error {
	if len(leases) == 0 {
		return nil
	}
	terms := make(map[string]int64, len(leases))
	k.mu.Lock()
	for _, l := range leases {
		l.end()
		terms[l.name] = l.term
		if k.held[l.name] == l {
			delete(k.held, l.name)
		}
	}
	k.mu.Unlock()
	return k.db.Write(ctx, func(tx *ledger.Tx) error { return k.free(ctx, tx, terms) })
}

func (k *Holder) releaseAll(ctx context.Context) error {
	k.mu.Lock()
	for _, l := range k.held {
		l.end()
	}
	k.held = map[string]*Lease{}
	k.mu.Unlock()
	return k.db.Write(ctx, func(tx *ledger.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE leases SET owner = '', expires_at = 0 WHERE owner = $1", k.owner)
		return err
	})
}

// Nodes returns the names of the living nodes of this holder's kind.
func (k *Holder) Nodes(ctx context.Context) ([]string, error) {
	return ledger.ReadOf(ctx, k.db, func(tx *ledger.Tx) (list []string, err error) {
		clock, err := tx.Now(ctx)
		if err != nil {
			return nil, err
		}
		prefix := nodePrefix(k.kind)
		err = tx.Query(ctx, "SELECT name, owner FROM leases WHERE substr(name, 1, $1) = $2 AND owner <> '' AND expires_at > $3 ORDER BY name",
			[]any{len(prefix), prefix, clock}, func(r ledger.Row) error {
				var name, owner string
				err := r.Scan(&name, &owner)
				if !k.db.OwnerDead(owner) || owner == k.owner {
					list = append(list, strings.TrimPrefix(name, prefix))
				}
				return err
			})
		return list, err
	})
}

// Instance returns the name under which this process is a node.
func (k *Holder) Instance() string { return k.instance }

// OwnerDead reports that an owner's process has certainly ended. False says nothing.
func (k *Holder) OwnerDead(owner string) bool { return k.db.OwnerDead(owner) }
