package consensus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/relay/telemetry"
	"lockstep/internal/sleep"
)

const (
	// receiptGrace is how long after the end of a transaction's validity its receipt
	// may still turn up: clocks differ, and a node needs time to handle a round.
	receiptGrace = 15 * time.Second

	// ReceiptKept is how long after a transaction's valid start nodes surely still have its
	// receipt and its record.
	ReceiptKept = 170 * time.Second

	// minAbsent is how many nodes must know nothing of a transaction whose validity is
	// over, where there are that many: one node may be behind.
	minAbsent = 3

	// maxQueryFailures is how many queries in a row a node may fail before others are asked.
	maxQueryFailures = 2
)

// Receipt is the network's verdict on a transaction, from consensus.
type Receipt struct {
	TransactionID hedera.TransactionID
	Status        hedera.Status
	Node          hedera.ID // which node told
	File          hedera.ID // created, or zero
}

// Pending is a transaction that a node has accepted, or, within a SentError, that
// it may have.
type Pending struct {
	client *Client
	id     hedera.TransactionID
	node   *node
	since  time.Time
	once   sync.Once // closes denied
	denied chan struct{}
}

// Pending returns a handle to a transaction that was submitted earlier, also by
// another process, to ask for its receipt. A node that is not, or no longer, on the
// list is replaced by another.
func (c *Client) Pending(id hedera.TransactionID, node hedera.ID) *Pending {
	n := c.nodes.find(node)
	if n == nil {
		n = c.nodes.best(id.Payer.LongZero(), nil)
	}
	return newPending(c, id, n)
}

func newPending(c *Client, id hedera.TransactionID, n *node) *Pending {
	return &Pending{client: c, id: id, node: n, since: time.Now(), denied: make(chan struct{})}
}

// Denied is closed when the node of the transaction says, while Receipt waits, that it never heard of it: it was killed
// with what it had accepted last.
func (p *Pending) Denied() <-chan struct{} { return p.denied }

// ID returns the transaction id.
func (p *Pending) ID() hedera.TransactionID { return p.id }

// Node returns the node that has the transaction.
func (p *Pending) Node() hedera.ID { return p.node.id }

// Receipt waits for consensus and returns the verdict. It asks the node that took
// the transaction, first in quick succession and then every half second, and other
// nodes when that one stops answering. While none answers, and before it gives up, it
// asks the source.
//
// Without a receipt it ends when ctx is done, with ctx's error, which says nothing
// about the transaction; or, when the transaction's validity is over, with
// ErrReceiptNotFound if nodes can say that there is none, with ErrReceiptExpired if
// none can any more. It may be called again.
func (p *Pending) Receipt(ctx context.Context) (verdict Receipt, err error) {
	ctx, span := telemetry.StartCall(ctx, "receipt")
	defer func() {
		if span.Recorded() {
			span.Text("lockstep.transaction_id", p.id.String())
			if err == nil {
				span.Text("lockstep.status", verdict.Status.String())
			}
		}
		span.End(err)
	}()
	deadline := p.id.ValidStart.Time().Add(ValidDuration + receiptGrace)
	w := &watch{Pending: p, at: p.node}
	pauses := p.client.pace.receipt
	for i := 0; ; i++ {
		if !sleep.For(ctx, pauses[min(i, len(pauses)-1)]) {
			return Receipt{}, w.giveUp(ended(ctx))
		}
		late := time.Now().After(deadline)
		receipt := w.ask(ctx)
		if late && receipt == nil && w.failures == 0 {
			receipt = w.askOthers(ctx)
		}
		if receipt == nil && (w.failures > 0 || late) {
			receipt = w.askSource(ctx, late && (w.failures == 0 || time.Since(p.id.ValidStart.Time()) > ReceiptKept))
		}
		switch {
		case receipt != nil:
			telemetry.Observe(ctx, p.client.metrics.receipts.WithLabelValues(resultFound), time.Since(p.since).Seconds())
			return *receipt, nil
		case ctx.Err() != nil:
			return Receipt{}, w.giveUp(ended(ctx))
		case time.Since(p.id.ValidStart.Time()) > ReceiptKept:
			return Receipt{}, w.giveUp(ErrReceiptExpired)
		case late && w.failures == 0:
			telemetry.Observe(ctx, p.client.metrics.receipts.WithLabelValues(resultNotFound), time.Since(p.since).Seconds())
			return Receipt{}, fmt.Errorf("transaction %s: %w", p.id, ErrReceiptNotFound)
		}
	}
}

// watch is one wait for a receipt.
type watch struct {
	*Pending
	at       *node // who is asked
	failures int   // in a row
	last     error
	away     bool // its own node is out, so another one is asked until it is back
	denials  int  // of its own node, in a row

	askedSource time.Time // when the source was asked
}

// ask makes one query, and moves on to another node when this one keeps failing.
func (w *watch) ask(ctx context.Context) *Receipt {
	if w.away && w.node.healthy(time.Now()) {
		w.at, w.away = w.node, false
	}
	receipt, answer, err := w.client.query(ctx, w.at, w.id)
	if w.last = err; err == nil {
		w.failures = 0
		w.noteDenial(answer)
		return receipt
	}
	if w.failures++; w.failures >= maxQueryFailures || !w.at.healthy(time.Now()) {
		if next := w.client.nodes.best(w.id.Payer.LongZero(), []*node{w.at}); next != nil {
			w.away = w.away || w.at == w.node && !w.at.healthy(time.Now())
			w.at = next
		}
	}
	return nil
}

// noteDenial notes what the transaction's own node says. One denial may come from a node behind the same address that
// is not the one that took it.
func (w *watch) noteDenial(answer idState) {
	const enough = 2
	switch {
	case w.at != w.node:
	case answer != idUnknown:
		w.denials = 0
	default:
		if w.denials++; w.denials == enough {
			w.once.Do(func() { close(w.denied) })
		}
	}
}

// askOthers asks further nodes once, until enough of them know nothing.
func (w *watch) askOthers(ctx context.Context) *Receipt {
	asked := []*node{w.at}
	for nothing := 1; nothing < minAbsent; {
		n := w.client.nodes.best(w.id.Payer.LongZero(), asked)
		if n == nil || !n.healthy(time.Now()) {
			return nil
		}
		asked = append(asked, n)
		receipt, _, err := w.client.query(ctx, n, w.id)
		if receipt != nil {
			return receipt
		}
		if err == nil {
			nothing++
		}
	}
	return nil
}

func (w *watch) giveUp(err error) error {
	return fmt.Errorf("receipt of transaction %s: %w", w.id, join(err, w.last))
}

// idState is what a node knows of a transaction id.
type idState int

const (
	idUnclear idState = iota // no answer
	idUnknown                // the node has never heard of it
	idKnown                  // the node has it, with or without a receipt
)

// stateAt asks one node about a transaction id, briefly.
func (c *Client) stateAt(ctx context.Context, n *node, id hedera.TransactionID) idState {
	_, answer, _ := c.query(ctx, n, id)
	return answer
}

// query asks one node for a receipt once, briefly. The receipt is nil while there is none. That the caller has no more time is not
// the node's fault.
func (c *Client) query(caller context.Context, n *node, id hedera.TransactionID) (*Receipt, idState, error) {
	ctx, cancel := context.WithTimeout(caller, c.pace.query)
	defer cancel()
	response, err := c.put(ctx, n, hapi.MethodGetTransactionReceipts, receiptQuery(id))
	if err != nil {
		if caller.Err() == nil && provablyUnsent(err) {
			n.failed(err, true)
		}
		return nil, idUnclear, err
	}
	receipt, answer, err := readReceipt(response)
	if err != nil {
		return nil, idUnclear, fmt.Errorf("node %s: %w", n.id, err)
	}
	if receipt != nil {
		receipt.TransactionID, receipt.Node = id, n.id
	}
	return receipt, answer, nil
}

// readReceipt reads a node's answer to a receipt query. Both the header and the
// receipt itself may say that there is none, or none yet.
func readReceipt(response *hapi.Response) (*Receipt, idState, error) {
	answer := response.GetTransactionGetReceipt()
	if answer == nil {
		return nil, idUnclear, errors.New("the answer is not a receipt")
	}
	status := answer.GetHeader().GetNodeTransactionPrecheckCode()
	if status == hapi.ResponseCodeEnum_OK {
		if answer.GetReceipt() == nil {
			return nil, idUnclear, errors.New("the answer has no receipt")
		}
		switch inner := answer.GetReceipt().GetStatus(); inner {
		case hapi.ResponseCodeEnum_UNKNOWN, hapi.ResponseCodeEnum_RECEIPT_NOT_FOUND:
			status = inner
		default:
			file := answer.GetReceipt().GetFileID()
			return &Receipt{Status: inner, File: hedera.IDOf(file, file.GetFileNum())}, idKnown, nil
		}
	}
	switch status {
	case hapi.ResponseCodeEnum_UNKNOWN:
		return nil, idKnown, nil
	case hapi.ResponseCodeEnum_RECEIPT_NOT_FOUND:
		return nil, idUnknown, nil
	default:
		return nil, idUnclear, fmt.Errorf("receipt query: %s", status)
	}
}

// ReceiptSource tells from outside, such as from the mirror node, what became of a transaction:
// nil, if it does not know yet or there is nothing to know.
type ReceiptSource func(ctx context.Context, id hedera.TransactionID) (*Receipt, error)

// ReceiptsAlsoFrom names a source for transactions whose receipt the nodes do not give: while
// they do not answer, and before one is called unknown or never executed. Call it before
// the client is used.
func (c *Client) ReceiptsAlsoFrom(w ReceiptSource) { c.source = w }

// askSource asks the source, not more often than once in a while unless it is the last chance.
func (w *watch) askSource(ctx context.Context, lastChance bool) *Receipt {
	if w.client.source == nil || !lastChance && time.Since(w.askedSource) < w.client.pace.source {
		return nil
	}
	w.askedSource = time.Now()
	ctx, cancel := context.WithTimeout(ctx, w.client.pace.query)
	defer cancel()
	receipt, err := w.client.source(ctx, w.id)
	if err != nil {
		w.client.log.Debug("the mirror node was asked for a transaction and gave none", "transaction_id", w.id.String(), "error", err)
		return nil
	}
	return receipt
}
