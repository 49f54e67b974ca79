package pending

import (
	"container/list"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/eth"
)

// table is what this process knows: the contents of a Pool, under its mutex.
type table struct {
	cfg     Config
	begun   time.Time
	hashes  map[common.Hash]*entry
	senders map[common.Address]*sender
	ended   list.List // of *entry: over, and kept for a while; the oldest first
	proofs  list.List // of *sender with a proven nonce; the oldest first
	pending int       // entries that are on their way
	bytes   int
}

// entry is a transaction of this process. Times are durations since the table was made, by
// the monotonic clock: thousands of entries may wait.
type entry struct {
	tx       *eth.Tx
	entered  time.Duration
	until    time.Duration // when Redis is to be told again; when it is over, how long it is kept
	attempts int32         // on their way; 0: over
	spent    bool          // it was executed
	known    bool          // it was executed, or may have been
}

// weight is what an entry costs, about.
func (e *entry) weight() int { return 512 + len(e.tx.Raw()) }

// sender is what is known of one sender. It is forgotten when nothing is.
type sender struct {
	address common.Address
	pending map[uint64]int // attempts on their way, by nonce
	next    uint64         // proven
	until   time.Time      // that next counts
	proof   *list.Element  // in proofs
}

func newTable(cfg Config) *table {
	return &table{cfg: cfg, begun: time.Now(), hashes: map[common.Hash]*entry{}, senders: map[common.Address]*sender{}}
}

// add takes an attempt in. It returns nil if there is no room.
func (t *table) add(tx *eth.Tx, now time.Time) *entry {
	t.expire(now)
	e := t.hashes[tx.Hash()]
	if e == nil || e.attempts == 0 {
		old := e
		e = &entry{tx: tx, entered: now.Sub(t.begun)}
		e.until = e.entered + t.cfg.renewal()
		if old != nil { // sent again after its end
			t.drop(old)
			e.spent, e.known = old.spent, old.known
		}
		if !t.makeRoom(e.weight()) {
			return nil
		}
		t.hashes[tx.Hash()] = e
		t.bytes += e.weight()
		t.pending++
	}
	e.attempts++
	t.of(tx.From()).pending[tx.Nonce()]++
	return e
}

// makeRoom forgets what is over, oldest first, until one more fits.
func (t *table) makeRoom(weight int) bool {
	for len(t.hashes) >= t.cfg.MaxEntries || t.bytes+weight > t.cfg.MaxBytes {
		oldest := t.ended.Front()
		if oldest == nil {
			return false
		}
		t.ended.Remove(oldest)
		t.drop(oldest.Value.(*entry))
	}
	return true
}

func (t *table) drop(e *entry) {
	if t.hashes[e.tx.Hash()] == e {
		delete(t.hashes, e.tx.Hash())
		t.bytes -= e.weight()
	}
}

func (t *table) of(address common.Address) *sender {
	s := t.senders[address]
	if s == nil {
		s = &sender{address: address, pending: map[uint64]int{}}
		t.senders[address] = s
	}
	return s
}

// end is what became of a transaction.
type end struct {
	over   bool // no attempt at it is on its way
	spent  bool // it was executed
	known  bool // it was executed, or may have been, and may be asked for
	fitted bool // there was room for it
	others bool // more of its sender are on their way
	took   time.Duration
}

// done ends an attempt.
func (t *table) done(tx *eth.Tx, spent, perhaps bool, now time.Time) end {
	t.expire(now)
	if spent {
		t.prove(tx.From(), tx.Nonce()+1, now)
	}
	e := t.hashes[tx.Hash()]
	if e == nil || e.attempts == 0 { // it had not fit
		return end{over: true, spent: spent}
	}
	e.attempts--
	e.spent = e.spent || spent
	e.known = e.known || spent || perhaps
	s := t.of(tx.From())
	if s.pending[tx.Nonce()]--; s.pending[tx.Nonce()] == 0 {
		delete(s.pending, tx.Nonce())
	}
	what := end{
		over: e.attempts == 0, spent: e.spent, known: e.known, fitted: true, others: len(s.pending) > 0,
		took: now.Sub(t.begun) - e.entered,
	}
	if !what.over {
		return what
	}
	t.pending--
	if e.known {
		e.until = now.Sub(t.begun) + t.cfg.ExecutedTTL.Duration()
		t.ended.PushBack(e)
	} else {
		t.drop(e)
	}
	t.tidy(s, now)
	return what
}

// renew returns what is on its way and of which Redis was not told for a while.
func (t *table) renew(now time.Time) (due []*eth.Tx) {
	t.expire(now)
	at := now.Sub(t.begun)
	for _, e := range t.hashes {
		if e.attempts > 0 && !e.spent && at >= e.until {
			e.until = at + t.cfg.renewal()
			due = append(due, e.tx)
		}
	}
	return due
}

// prove raises the proven nonce.
func (t *table) prove(address common.Address, next uint64, now time.Time) {
	s := t.of(address)
	s.next = max(s.next, next)
	s.until = now.Add(t.cfg.ExecutedTTL.Duration())
	if s.proof == nil {
		s.proof = t.proofs.PushBack(s)
	} else {
		t.proofs.MoveToBack(s.proof)
	}
	for t.proofs.Len() > t.cfg.MaxEntries {
		t.forget(t.proofs.Front().Value.(*sender), now)
	}
}

// expire forgets what has been over for long enough.
func (t *table) expire(now time.Time) {
	for at := t.ended.Front(); at != nil && now.Sub(t.begun) >= at.Value.(*entry).until; at = t.ended.Front() {
		t.ended.Remove(at)
		t.drop(at.Value.(*entry))
	}
	for at := t.proofs.Front(); at != nil && !now.Before(at.Value.(*sender).until); at = t.proofs.Front() {
		t.forget(at.Value.(*sender), now)
	}
}

// forget ends what was proven of a sender.
func (t *table) forget(s *sender, now time.Time) {
	t.proofs.Remove(s.proof)
	s.proof, s.next, s.until = nil, 0, time.Time{}
	t.tidy(s, now)
}

// tidy forgets a sender of whom nothing is known.
func (t *table) tidy(s *sender, now time.Time) {
	if len(s.pending) == 0 && !now.Before(s.until) {
		delete(t.senders, s.address)
	}
}

// proven returns the nonce that the network proved, or 0.
func (t *table) proven(address common.Address, now time.Time) uint64 {
	if s := t.senders[address]; s != nil && now.Before(s.until) {
		return s.next
	}
	return 0
}

// has tells whether a transaction with that nonce is on its way.
func (t *table) has(address common.Address, nonce uint64) bool {
	s := t.senders[address]
	return s != nil && s.pending[nonce] > 0
}

// attempts counts the transactions with that nonce that are on their way.
func (t *table) attempts(address common.Address, nonce uint64) int {
	if s := t.senders[address]; s != nil {
		return s.pending[nonce]
	}
	return 0
}

// active counts the senders with transactions on their way.
func (t *table) active() (n int) {
	for _, s := range t.senders {
		if len(s.pending) > 0 {
			n++
		}
	}
	return n
}
