package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

func (r *run) verify(ctx context.Context) (Chain, error) {
	began := time.Now()
	r.logf("asking the chain")
	r.nonces = make([]uint64, len(r.senders))
	for i, s := range r.senders {
		r.nonces[i] = s.start
	}
	r.receipts = make([]*receipt, len(r.txs))
	if err := r.settle(ctx); err != nil {
		return Chain{}, err
	}
	// Some targets have receipts of transactions that consensus refused. The nonces are
	// read once more behind them: what executed in between must not count as refused.
	if _, err := r.findReceipts(ctx, func(t transfer) bool { return t.verdict != planned }); err != nil {
		return Chain{}, err
	}
	if _, err := r.readNonces(ctx, func(int) bool { return true }); err != nil {
		return Chain{}, err
	}
	chain := Chain{Settled: time.Since(began).Seconds()}
	order, err := r.order(ctx, &chain)
	if err != nil {
		return Chain{}, err
	}
	r.count(&chain)
	r.inspect(&chain, order)
	return chain, nil
}

// settle watches the chain until everything that may still execute has, or until
// nothing has changed for the settle time.
func (r *run) settle(ctx context.Context) error {
	last := make(map[int]uint64) // the highest nonce of each sender that may execute
	for _, t := range r.txs {
		if t.verdict == accepted || t.verdict == unanswered {
			last[t.sender] = max(last[t.sender], t.nonce)
		}
	}
	waits := func(s int) bool {
		nonce, any := last[s]
		return any && r.nonces[s] <= nonce
	}
	due := func(t transfer) bool { return t.verdict != planned && t.nonce < r.nonces[t.sender] }
	changed, told := time.Now(), false
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		nonces, err := r.readNonces(ctx, waits)
		if err != nil {
			return err
		}
		receipts, err := r.findReceipts(ctx, due)
		if err != nil {
			return err
		}
		if nonces+receipts > 0 {
			changed = time.Now()
			pause = 50 * time.Millisecond
		}
		open := false
		for i, t := range r.txs {
			open = open || waits(t.sender) || r.receipts[i] == nil && due(t)
		}
		if !open || time.Since(changed) >= r.Settle {
			return nil
		}
		if !told && time.Since(changed) >= r.Settle/24 {
			r.logf("the chain has stood for %v with transactions whose fate is open; waiting for %v more at most",
				time.Since(changed).Round(time.Millisecond), (r.Settle - time.Since(changed)).Round(time.Millisecond))
			told = true
		}
		sleep.For(ctx, min(pause, r.Settle))
	}
}

// readNonces reads the nonces of the senders chosen, and counts those that have changed.
func (r *run) readNonces(ctx context.Context, chosen func(sender int) bool) (int64, error) {
	var changed atomic.Int64
	err := each(ctx, len(r.senders), func(ctx context.Context, s int) error {
		if !chosen(s) {
			return nil
		}
		nonce, err := r.state.nonce(ctx, r.senders[s].addr)
		if err == nil && nonce > r.nonces[s] { // replicas of a target may be behind each other
			r.nonces[s] = nonce
			changed.Add(1)
		}
		return err
	})
	return changed.Load(), err
}

// findReceipts looks for the missing receipts of the transactions chosen, and counts those it found.
func (r *run) findReceipts(ctx context.Context, chosen func(transfer) bool) (int64, error) {
	var found atomic.Int64
	err := each(ctx, len(r.txs), func(ctx context.Context, i int) error {
		if r.receipts[i] != nil || !chosen(r.txs[i]) {
			return nil
		}
		got, err := r.state.receipt(ctx, r.txs[i].hash)
		if got != nil {
			r.receipts[i] = got
			found.Add(1)
		}
		return err
	})
	return found.Load(), err
}

// executed tells whether transaction i has used up its nonce: every nonce has one
// transaction, so a receipt below the nonce of the account is its own.
func (r *run) executed(i int) bool {
	return r.receipts[i] != nil && r.txs[i].nonce < r.nonces[r.txs[i].sender]
}

// wrongNonceStatus is how consensus names a transaction whose nonce was not next.
const wrongNonceStatus = "WRONG_NONCE"

// A sighting is one transaction of the load at its place in the order of the chain.
type sighting struct {
	tx         int // number in the run
	wrongNonce bool
}

// order puts the transactions into the order of the chain.
func (r *run) order(ctx context.Context, chain *Chain) (order []sighting, err error) {
	index := make(map[common.Hash]int, len(r.txs))
	for i := range r.txs {
		index[r.txs[i].hash] = i
	}
	if r.log == nil {
		chain.OrderFrom = fromReceipts
		return r.orderFromBlocks(ctx, chain, index)
	}
	chain.OrderFrom = fromLog
	gap, err := r.log.follow(ctx, func(e logEntry) {
		if i, ours := index[e.Hash]; ours {
			order = append(order, sighting{tx: i, wrongNonce: e.Status == wrongNonceStatus})
		}
	})
	if gap && err == nil {
		err = errors.New("the consensus log dropped entries before they were read")
	}
	if err != nil {
		chain.Notes = append(chain.Notes, "out-of-order and duplicated counts are incomplete: "+err.Error())
	}
	return order, ctx.Err()
}

// orderFromBlocks sorts the receipts by place, and looks into the blocks for what they
// contain a second time, which a receipt cannot tell.
func (r *run) orderFromBlocks(ctx context.Context, chain *Chain, index map[common.Hash]int) ([]sighting, error) {
	var order []sighting
	for i, found := range r.receipts {
		if found != nil {
			order = append(order, sighting{tx: i, wrongNonce: !r.executed(i)})
		}
	}
	slices.SortStableFunc(order, func(a, b sighting) int {
		x, y := r.receipts[a.tx], r.receipts[b.tx]
		return cmp.Or(cmp.Compare(x.Block, y.Block), cmp.Compare(x.Index, y.Index))
	})
	latest, err := r.state.quantity(ctx, "eth_blockNumber")
	if err != nil {
		return nil, err
	}
	// The block before the run may still have been open.
	from, to := r.block, max(r.block, latest.Uint64())
	if to-from > maxScannedBlocks {
		to = from + maxScannedBlocks
		chain.Notes = append(chain.Notes, fmt.Sprintf("duplicates were looked for in the first %d blocks only", maxScannedBlocks))
	}
	seen := make(map[common.Hash]bool)
	var mu sync.Mutex
	err = each(ctx, int(to-from)+1, func(ctx context.Context, n int) error {
		hashes, err := r.state.blockHashes(ctx, from+uint64(n))
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, hash := range hashes {
			i, ours := index[hash]
			if ours && seen[hash] {
				order = append(order, sighting{tx: i})
			}
			seen[hash] = seen[hash] || ours
		}
		return nil
	})
	return order, err
}

// inspect goes through an order. Only the first sighting of a transaction says
// something about its place.
func (r *run) inspect(chain *Chain, order []sighting) {
	seen, highest := make(map[int]bool, len(order)), make(map[int]uint64)
	for _, s := range order {
		if s.wrongNonce {
			chain.WrongNonceAtConsensus++
		}
		if seen[s.tx] {
			chain.Duplicated++
			continue
		}
		seen[s.tx] = true
		t := r.txs[s.tx]
		if s.wrongNonce && !t.aboutNonce() {
			chain.WrongNonce++
		}
		if top, any := highest[t.sender]; any && t.nonce < top {
			chain.OutOfOrder++
		} else {
			highest[t.sender] = t.nonce
		}
	}
}

// aboutNonce tells whether the target refused a transaction because of its nonce. Relays have
// no code of their own for it, so the message decides.
func (t transfer) aboutNonce() bool {
	return t.verdict == refused && strings.Contains(strings.ToLower(t.class.message), "nonce")
}

// count fills in what the receipts and nonces tell.
func (r *run) count(chain *Chain) {
	for i, s := range r.senders {
		chain.NonceAdvance += int(r.nonces[i] - s.start)
	}
	for i, t := range r.txs {
		done := r.executed(i)
		switch {
		case done && t.verdict != accepted:
			chain.Executed++
			chain.ExecutedUnconfirmed++
		case done:
			chain.Executed++
		case t.verdict == accepted:
			chain.Lost++
		}
		if t.aboutNonce() {
			chain.WrongNonce++
		}
	}
	if chain.NonceAdvance != chain.Executed {
		chain.Notes = append(chain.Notes, fmt.Sprintf(
			"nonces advanced by %d but %d transactions have receipts: the target shows one of them wrongly or late",
			chain.NonceAdvance, chain.Executed))
	}
}

// consensusPath is where a development network publishes its order.
const consensusPath = "/devnet/consensus"

// maxLogPage bounds one page of the log; maxLogPages the pages of one reading.
const (
	maxLogPage  = 256 << 20
	maxLogPages = 10_000
)

// logEntry is one transaction as consensus saw it.
type logEntry struct {
	Sequence int64       `json:"sequence"` // place in the log
	Hash     common.Hash `json:"hash"`
	Status   string      `json:"status"`
}

// consensusLog follows the log of a network from a remembered place.
type consensusLog struct {
	url  *url.URL
	http *http.Client
	next int64 // the place behind what was read
}

func newConsensusLog(raw string) (*consensusLog, error) {
	u, err := parseURL(raw, "http", "https")
	if err != nil {
		return nil, fmt.Errorf("consensus log: %w", err)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = consensusPath
	}
	return &consensusLog{url: u, http: &http.Client{Timeout: clientTimeout, CheckRedirect: noRedirect}}, nil
}

// follow hands the entries behind the place reached to f, oldest first, until it has
// read them all. It tells whether some were dropped before they were read.
func (l *consensusLog) follow(ctx context.Context, f func(logEntry)) (gap bool, err error) {
	for range maxLogPages {
		entries, err := l.page(ctx)
		if err != nil {
			return gap, fmt.Errorf("consensus log: %w", err)
		}
		if len(entries) == 0 {
			return gap, nil
		}
		for _, e := range entries {
			gap = gap || e.Sequence > l.next
			l.next = e.Sequence + 1
			f(e)
		}
	}
	return gap, errors.New("consensus log: it grows faster than it can be read")
}

// page reads one page, {"entries": […]}.
func (l *consensusLog) page(ctx context.Context) ([]logEntry, error) {
	u := *l.url
	query := u.Query()
	query.Set("since", strconv.FormatInt(l.next, 10))
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, errors.New("not a URL")
	}
	resp, err := l.http.Do(req)
	if err != nil {
		return nil, transportError{err}
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, statusError(resp.StatusCode)
	}
	var page struct {
		Entries *[]logEntry `json:"entries"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxLogPage)).Decode(&page); err != nil || page.Entries == nil {
		return nil, errors.New("the answer is not a page of entries")
	}
	return *page.Entries, nil
}
