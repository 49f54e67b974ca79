package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/sleep"
)

// maxScannedBlocks bounds the search for transactions that the chain has twice.
const maxScannedBlocks = 5_000

// Chain is what became of a run according to the chain, whatever the target answered.
type Chain struct {
	// Executed transactions have a receipt and have used up their nonce.
	Executed int `json:"executed"`
	// ExecutedUnconfirmed were executed although the answer was an error, or none.
	ExecutedUnconfirmed int `json:"executed_unconfirmed"`
	// NonceAdvance is by how much the nonces of all senders grew. It differs from
	// Executed if the target lies about one of them, or shows it late.
	NonceAdvance int `json:"nonce_advance"`
	// OutOfOrder transactions reached the chain after a higher nonce of their sender. What is executed is always in the
	// order of nonces, so without a consensus log only receipts of refused transactions show any: 0 is then not known,
	// and null in JSON.
	OutOfOrder int `json:"out_of_order"`
	// WrongNonce transactions were refused because of their nonce, by the target or by
	// consensus.
	WrongNonce int `json:"wrong_nonce"`
	// WrongNonceAtConsensus is how often consensus refused one for its nonce; each has
	// cost a fee. Without a consensus log 0 is not known, as above.
	WrongNonceAtConsensus int `json:"wrong_nonce_at_consensus"`
	// Lost transactions were answered with their hash and not executed.
	Lost int `json:"lost"`
	// Duplicated counts what reached the chain once more than it should.
	Duplicated int `json:"duplicated"`
	// OrderFrom is where the order comes from: "consensus log" or "receipts". Receipts
	// show only the refused transactions that the target has receipts for.
	OrderFrom string `json:"order_from"`
	// Settled is how long after the last answer the chain was watched, in seconds.
	Settled float64 `json:"settled_s"`
	// Notes say what could not be found out.
	Notes []string `json:"notes,omitempty"`
}

const (
	fromLog      = "consensus log"
	fromReceipts = "receipts"
)

// tells says whether a count of what consensus refused is known: receipts show only some, if any.
func (c *Chain) tells(count int) bool { return count > 0 || c.OrderFrom != fromReceipts }

// MarshalJSON writes null for what is not known.
func (c Chain) MarshalJSON() ([]byte, error) {
	type plain Chain
	out := struct {
		plain
		OutOfOrder            *int `json:"out_of_order"`
		WrongNonceAtConsensus *int `json:"wrong_nonce_at_consensus"`
	}{plain: plain(c)}
	if c.tells(c.OutOfOrder) {
		out.OutOfOrder = &c.OutOfOrder
	}
	if c.tells(c.WrongNonceAtConsensus) {
		out.WrongNonceAtConsensus = &c.WrongNonceAtConsensus
	}
	return json.Marshal(out)
}

// verifier finds out what became of the transactions of one run.
type verifier struct {
	state   *client
	log     *consensusLog // nil without one
	senders []*sender
	txs     []transfer
	quiet   time.Duration
	block   uint64 // the latest block before the run
	p       *progress

	nonces   []uint64   // the latest seen of each sender
	receipts []*receipt // by transaction
}

func (v *verifier) verify(ctx context.Context) (Chain, error) {
	began := time.Now()
	v.nonces = make([]uint64, len(v.senders))
	for i, s := range v.senders {
		v.nonces[i] = s.start
	}
	v.receipts = make([]*receipt, len(v.txs))
	if err := v.settle(ctx); err != nil {
		return Chain{}, err
	}
	// Some targets have receipts of transactions that consensus refused. The nonces are
	// read once more behind them: what executed in between must not count as refused.
	if err := v.findReceipts(ctx, func(t transfer) bool { return t.verdict != planned }, nil); err != nil {
		return Chain{}, err
	}
	if err := v.readNonces(ctx, func(int) bool { return true }, nil); err != nil {
		return Chain{}, err
	}
	chain := Chain{Settled: time.Since(began).Seconds()}
	order, err := v.order(ctx, &chain)
	if err != nil {
		return Chain{}, err
	}
	v.count(&chain, inspect(v.txs, order))
	return chain, nil
}

// settle watches the chain until everything that may still execute has, or until
// nothing has changed for the quiet time.
func (v *verifier) settle(ctx context.Context) error {
	v.p.begin("settle", len(v.txs))
	defer v.p.end()
	last := make(map[int]uint64) // the highest nonce of each sender that may execute
	for _, t := range v.txs {
		if t.verdict == accepted || t.verdict == garbled {
			last[t.sender] = max(last[t.sender], t.nonce)
		}
	}
	waits := func(s int) bool {
		nonce, any := last[s]
		return any && v.nonces[s] <= nonce
	}
	changed, told := time.Now(), false
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		var moves moves
		if err := v.readNonces(ctx, waits, &moves); err != nil {
			return err
		}
		due := func(t transfer) bool { return t.verdict != planned && t.nonce < v.nonces[t.sender] }
		if err := v.findReceipts(ctx, due, &moves); err != nil {
			return err
		}
		if moves.count() > 0 {
			changed = time.Now()
			pause = 50 * time.Millisecond
		}
		open := slices.ContainsFunc(v.txs, func(t transfer) bool { return waits(t.sender) }) ||
			v.missing(due) > 0
		if !open || time.Since(changed) >= v.quiet {
			return nil
		}
		if !told && time.Since(changed) >= v.quiet/24 {
			v.p.note("the chain has stood for %v with transactions whose fate is open; waiting for %v more at most",
				time.Since(changed).Round(time.Millisecond), (v.quiet - time.Since(changed)).Round(time.Millisecond))
			told = true
		}
		sleep.For(ctx, min(pause, v.quiet))
	}
}

// moves counts the changes that a pass has seen.
type moves struct {
	mu sync.Mutex
	n  int
}

func (m *moves) add() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n++
}

func (m *moves) count() int { return m.n }

// readNonces reads the nonces of the senders chosen.
func (v *verifier) readNonces(ctx context.Context, chosen func(sender int) bool, m *moves) error {
	return each(ctx, len(v.senders), func(ctx context.Context, s int) error {
		if !chosen(s) {
			return nil
		}
		nonce, err := v.state.nonce(ctx, v.senders[s].addr)
		if err != nil {
			return err
		}
		if nonce > v.nonces[s] { // replicas of a target may be behind each other
			v.nonces[s] = nonce
			m.add()
		}
		return nil
	})
}

// findReceipts looks for the missing receipts of the transactions chosen.
func (v *verifier) findReceipts(ctx context.Context, chosen func(transfer) bool, m *moves) error {
	return each(ctx, len(v.txs), func(ctx context.Context, i int) error {
		if v.receipts[i] != nil || !chosen(v.txs[i]) {
			return nil
		}
		r, err := v.state.receipt(ctx, v.txs[i].hash)
		if err != nil {
			return err
		}
		if r != nil {
			v.receipts[i] = r
			v.p.add(1)
			m.add()
		}
		return nil
	})
}

func (v *verifier) missing(due func(transfer) bool) (n int) {
	for i := range v.txs {
		if v.receipts[i] == nil && due(v.txs[i]) {
			n++
		}
	}
	return n
}

// executed tells whether transaction i has used up its nonce: every nonce has one
// transaction, so a receipt below the nonce of the account is its own.
func (v *verifier) executed(i int) bool {
	return v.receipts[i] != nil && v.txs[i].nonce < v.nonces[v.txs[i].sender]
}

// order puts the transactions into the order of the chain.
func (v *verifier) order(ctx context.Context, chain *Chain) ([]sighting, error) {
	if v.log != nil {
		chain.OrderFrom = fromLog
		return v.orderFromLog(ctx, chain)
	}
	chain.OrderFrom = fromReceipts
	return v.orderFromBlocks(ctx, chain)
}

func (v *verifier) orderFromLog(ctx context.Context, chain *Chain) ([]sighting, error) {
	index := indexOf(v.txs)
	var order []sighting
	err := v.log.follow(ctx, func(e logEntry) {
		if i, ours := index[e.Hash]; ours {
			order = append(order, sighting{tx: i, wrongNonce: e.Status == wrongNonceStatus})
		}
	})
	if err != nil {
		chain.Notes = append(chain.Notes, "out-of-order and duplicated counts are incomplete: "+err.Error())
	}
	return order, ctx.Err()
}

// orderFromBlocks sorts the receipts by place, and looks into the blocks for what they
// contain a second time, which a receipt cannot tell.
func (v *verifier) orderFromBlocks(ctx context.Context, chain *Chain) ([]sighting, error) {
	var found []int
	for i, r := range v.receipts {
		if r != nil {
			found = append(found, i)
		}
	}
	slices.SortStableFunc(found, func(a, b int) int {
		x, y := v.receipts[a], v.receipts[b]
		return cmp.Or(cmp.Compare(x.Block, y.Block), cmp.Compare(x.Index, y.Index))
	})
	order := make([]sighting, 0, len(found))
	for _, i := range found {
		order = append(order, sighting{tx: i, wrongNonce: !v.executed(i)})
	}
	again, err := v.seenTwice(ctx, chain)
	return append(order, again...), err
}

// seenTwice returns a sighting for each time that a block of the run repeats a
// transaction.
func (v *verifier) seenTwice(ctx context.Context, chain *Chain) ([]sighting, error) {
	latest, err := v.state.quantity(ctx, "eth_blockNumber")
	if err != nil {
		return nil, err
	}
	// The block before the run may still have been open.
	from, to := v.block, max(v.block, latest.Uint64())
	if to-from > maxScannedBlocks {
		to = from + maxScannedBlocks
		chain.Notes = append(chain.Notes, fmt.Sprintf("duplicates were looked for in the first %d blocks only", maxScannedBlocks))
	}
	index := indexOf(v.txs)
	seen := make(map[common.Hash]bool)
	var again []sighting
	var mu sync.Mutex
	err = each(ctx, int(to-from)+1, func(ctx context.Context, n int) error {
		hashes, err := v.state.blockHashes(ctx, from+uint64(n))
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, hash := range hashes {
			i, ours := index[hash]
			if ours && seen[hash] {
				again = append(again, sighting{tx: i})
			}
			seen[hash] = seen[hash] || ours
		}
		return nil
	})
	return again, err
}

// count fills in the numbers.
func (v *verifier) count(chain *Chain, f findings) {
	for i, s := range v.senders {
		chain.NonceAdvance += int(v.nonces[i] - s.start)
	}
	for i, t := range v.txs {
		done := v.executed(i)
		switch {
		case done && t.verdict != accepted:
			chain.Executed++
			chain.ExecutedUnconfirmed++
		case done:
			chain.Executed++
		case t.verdict == accepted:
			chain.Lost++
		}
		if t.nonceNo || f.wrongNonce[i] {
			chain.WrongNonce++
		}
	}
	chain.OutOfOrder = f.outOfOrder
	chain.Duplicated = f.duplicates
	chain.WrongNonceAtConsensus = f.wrongSeen
	if chain.NonceAdvance != chain.Executed {
		chain.Notes = append(chain.Notes, fmt.Sprintf(
			"nonces advanced by %d but %d transactions have receipts: the target shows one of them wrongly or late",
			chain.NonceAdvance, chain.Executed))
	}
}
