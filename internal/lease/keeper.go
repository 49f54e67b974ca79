package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"lockstep/internal/ledger"
	"lockstep/internal/sleep"
)

// The lease's times.
const (
	DefaultTTL   = 10 * time.Second
	DefaultRenew = 3 * time.Second
)

// ErrHeld says that another owner has the lease.
var ErrHeld = errors.New("another owner holds the lease")

// ErrDeposed says that the lease's term is over: another owner has had it since.
var ErrDeposed = errors.New("the lease's term is over")

// Options are the times of a Keeper; zero values stand for the defaults.
type Options struct {
	TTL    time.Duration // how long a lease lives without renewal
	Renew  time.Duration // how often all are renewed
	Margin time.Duration // how much earlier the holder stops to trust it; default TTL/5
}

// Keeper holds the leases of one process.
type Keeper struct {
	db       *ledger.DB
	kind     string
	instance string
	owner    string
	o        Options
	log      *slog.Logger

	mu     sync.Mutex
	held   map[string]*Lease
	taking map[string]int // how many calls are acquiring a name
}

// NewKeeper returns the keeper of a node. The owner id is the instance's name and a random
// boot id, so that a restarted process is another owner.
func NewKeeper(db *ledger.DB, kind, instance string, o Options, log *slog.Logger) *Keeper {
	if o.TTL == 0 {
		o.TTL = DefaultTTL
	}
	if o.Renew == 0 {
		o.Renew = o.TTL * 3 / 10
	}
	if o.Margin == 0 {
		o.Margin = o.TTL / 5
	}
	return &Keeper{
		db: db, kind: kind, instance: instance, owner: instance + "/" + uuid.NewString()[:8],
		o: o, log: log, held: map[string]*Lease{}, taking: map[string]int{},
	}
}

// Owner returns the owner id of this process.
func (k *Keeper) Owner() string { return k.owner }

func nodePrefix(kind string) string { return "node:" + kind + ":" }

// Register makes this process a living node. A living process of the same name is given
// the time of one lease to end, as it does when this one replaces it; then Register fails
// with ErrHeld.
func (k *Keeper) Register(ctx context.Context) error {
	if err := k.db.OwnerLock(k.owner); err != nil {
		return err
	}
	limit := now() + k.o.TTL + k.o.Renew
	for {
		last := now() > limit // before the question: what is slow is not held
		_, err := k.Acquire(ctx, nodePrefix(k.kind)+k.instance)
		if !errors.Is(err, ErrHeld) {
			return err
		}
		if last {
			return fmt.Errorf("another living process has the INSTANCE_ID %q: %w", k.instance, err)
		}
		if !sleep.For(ctx, k.o.Renew/6) {
			return ctx.Err()
		}
	}
}

// Run renews all leases until the context ends, then releases them.
func (k *Keeper) Run(ctx context.Context) error {
	for sleep.For(ctx, k.o.Renew) {
		renewed, cancel := context.WithTimeout(ctx, k.o.Renew)
		if err := k.renew(renewed); err != nil && ctx.Err() == nil && !ledger.IsDown(err) {
			k.log.Warn("leases were not renewed", "error", err)
		}
		cancel()
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.o.Renew)
	defer cancel()
	return k.releaseAll(last)
}

// Acquire takes a free or expired lease, or one whose owner is certainly dead.
// It returns ErrHeld if another owner has it, and this keeper's own lease if it has it.
func (k *Keeper) Acquire(ctx context.Context, name string) (*Lease, error) {
	k.mu.Lock()
	mine := k.held[name]
	k.mu.Unlock()
	if mine != nil && mine.Trusted(0) {
		return mine, nil
	}
	defer k.take(name)()
	before := now()
	var term int64
	err := k.db.Write(ctx, func(tx *ledger.Tx) error {
		term = 0
		clock, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		var owner string
		var old, expires int64
		found, err := tx.One(ctx, "SELECT owner, term, expires_at FROM leases WHERE name = $1"+tx.ForUpdate(), []any{name}, &owner, &old, &expires)
		if err != nil {
			return err
		}
		if found && owner != "" && owner != k.owner && expires > clock && !k.db.OwnerDead(owner) {
			return fmt.Errorf("%w: %s has %s", ErrHeld, owner, name)
		}
		term = old + 1
		n, err := tx.Exec(ctx, `INSERT INTO leases (name, owner, term, expires_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, term = excluded.term, expires_at = excluded.expires_at
			WHERE leases.term = $5`, name, k.owner, term, clock+k.o.TTL.Microseconds(), old)
		if err == nil && n == 0 {
			err = fmt.Errorf("%w: %s was taken at this moment", ErrHeld, name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	l := &Lease{keeper: k, name: name, term: term, trusted: before + k.o.TTL - k.o.Margin, lost: make(chan struct{})}
	k.mu.Lock()
	defer k.mu.Unlock()
	if old := k.held[name]; old != nil {
		old.end()
	}
	k.held[name] = l
	return l, nil
}

// take notes that names are being acquired, until the function that it returns is called.
func (k *Keeper) take(names ...string) (taken func()) {
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
func (k *Keeper) renew(ctx context.Context) error {
	k.mu.Lock()
	asked := maps.Clone(k.held)
	k.mu.Unlock()
	before := now()
	var terms map[string]int64
	err := k.db.Write(ctx, func(tx *ledger.Tx) error {
		terms = map[string]int64{}
		clock, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		err = tx.Query(ctx, "UPDATE leases SET expires_at = $1 WHERE owner = $2 RETURNING name, term",
			[]any{clock + k.o.TTL.Microseconds(), k.owner}, func(r ledger.Row) error {
				var name string
				var term int64
				err := r.Scan(&name, &term)
				terms[name] = term
				return err
			})
		if err != nil {
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
			l.extend(before + k.o.TTL - k.o.Margin)
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
func (k *Keeper) loose(terms map[string]int64) map[string]int64 {
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
func (k *Keeper) free(ctx context.Context, tx *ledger.Tx, terms map[string]int64) error {
	for part := range slices.Chunk(slices.Sorted(maps.Keys(terms)), 200) {
		args := make([]any, 0, 2*len(part)+1)
		for _, name := range part {
			args = append(args, name, terms[name])
		}
		_, err := tx.Exec(ctx, "UPDATE leases SET owner = '', expires_at = 0 FROM (VALUES "+ledger.Rows(len(part), 2)+
			") AS v WHERE leases.name = v.column1 AND leases.term = CAST(v.column2 AS BIGINT) AND leases.owner = $"+strconv.Itoa(len(args)+1), append(args, k.owner)...)
		if err != nil {
			return err
		}
	}
	return nil
}

func (k *Keeper) releaseAll(ctx context.Context) error {
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

// Nodes returns the names of the living nodes of this keeper's kind.
func (k *Keeper) Nodes(ctx context.Context) ([]string, error) {
	var list []string
	err := k.db.Read(ctx, func(tx *ledger.Tx) error {
		list = nil
		clock, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		prefix := nodePrefix(k.kind)
		return tx.Query(ctx, "SELECT name, owner FROM leases WHERE substr(name, 1, $1) = $2 AND owner <> '' AND expires_at > $3 ORDER BY name",
			[]any{len(prefix), prefix, clock}, func(r ledger.Row) error {
				var name, owner string
				err := r.Scan(&name, &owner)
				if !k.db.OwnerDead(owner) || owner == k.owner {
					list = append(list, strings.TrimPrefix(name, prefix))
				}
				return err
			})
	})
	return list, err
}

// Instance returns the name under which this process is a node.
func (k *Keeper) Instance() string { return k.instance }

// OwnerDead reports that an owner's process has certainly ended. False says nothing.
func (k *Keeper) OwnerDead(owner string) bool { return k.db.OwnerDead(owner) }
