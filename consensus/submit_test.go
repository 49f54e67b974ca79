package consensus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// certainty names the class of Submit's result.
func certainty(err error) string {
	var classes string
	if err == nil {
		return "accepted"
	}
	if refused, ok := errors.AsType[*StatusError](err); ok {
		classes += "refused " + refused.Status.String()
	}
	if _, ok := errors.AsType[*NotSentError](err); ok {
		classes += "not sent"
	}
	if _, ok := errors.AsType[*NodeUnavailableError](err); ok {
		classes += "unavailable"
	}
	if _, ok := errors.AsType[*SentError](err); ok {
		classes += "sent"
	}
	if _, ok := errors.AsType[*DuplicateError](err); ok {
		classes += "duplicate"
	}
	return classes
}

var errLost = errors.New("the lease is lost")

// TestOutcomes drives a submission through the scripts of two nodes, of which the
// sender's is a. Every case says what is claimed afterwards, how often the bytes
// arrived where, and under how many transaction ids.
func TestOutcomes(t *testing.T) {
	type script = func(offer) (hapi.ResponseCodeEnum, error)
	gateAt := func(n int) func() error {
		calls := 0
		return func() error {
			if calls++; calls >= n {
				return errLost
			}
			return nil
		}
	}
	const short = 300 * time.Millisecond // for a node to come back
	tests := []struct {
		name            string
		a, b            script
		aKnows, bKnows  receiptScript
		sameNode        bool
		gate            func() error
		attemptTimeout  time.Duration // doubled until the bytes leave in time; 0 = the usual one
		restart         time.Duration
		source          *Receipt
		want            string // certainty
		at              int64  // node of the pending transaction
		toA, toB, ids   int
		until           bool // its time is up when toA and toB have arrived, which are the minimum
		both            int  // in place of toA and toB, where it depends on time who is asked next
		is              error
		senderMovesAway bool // the sender's next transaction goes to b
	}{
		{name: "accepted", want: "accepted", at: 3, toA: 1, ids: 1},
		{name: "busy, then the other node", a: answers(statusBusy), want: "accepted", at: 4, toA: 1, toB: 1, ids: 1},
		{
			name: "both busy for a while", a: answers(statusBusy, statusBusy, statusOK), b: answers(statusBusy),
			want: "accepted", at: 3, toA: 3, toB: 2, ids: 1,
		},
		{
			name: "busy for ever", a: answers(statusBusy), b: answers(statusBusy), until: true,
			want: "refused BUSY", toA: 10, toB: 10, ids: 1, is: context.DeadlineExceeded,
		},
		{
			name: "busy for longer than the number of attempts", a: func(o offer) (hapi.ResponseCodeEnum, error) {
				if o.n <= 10 {
					return statusBusy, nil
				}
				return statusOK, nil
			}, b: answers(statusBusy), want: "accepted", at: 3, toA: 11, toB: 10, ids: 1,
		},
		{
			name: "not created, then the other node", a: answers(hapi.ResponseCodeEnum_PLATFORM_TRANSACTION_NOT_CREATED),
			want: "accepted", at: 4, toA: 1, toB: 1, ids: 1,
		},
		{
			name: "platform not active", a: answers(hapi.ResponseCodeEnum_PLATFORM_NOT_ACTIVE),
			want: "accepted", at: 4, toA: 1, toB: 1, ids: 1, senderMovesAway: true,
		},
		{
			name: "wrong node account", a: answers(hapi.ResponseCodeEnum_INVALID_NODE_ACCOUNT),
			want: "accepted", at: 4, toA: 1, toB: 1, ids: 1, senderMovesAway: true,
		},
		{
			name: "a definite refusal", a: answers(hapi.ResponseCodeEnum_INVALID_SIGNATURE),
			want: "refused INVALID_SIGNATURE", toA: 1, ids: 1,
		},
		{name: "duplicate as the first answer", a: answers(statusDuplicate), want: "refused DUPLICATE_TRANSACTION", toA: 1, ids: 1},
		{
			name: "expired, then under a new id", a: answers(hapi.ResponseCodeEnum_TRANSACTION_EXPIRED, statusOK),
			want: "accepted", at: 3, toA: 2, ids: 2,
		},
		{
			name: "starts in the future, then under a new id", a: answers(hapi.ResponseCodeEnum_INVALID_TRANSACTION_START, statusOK),
			want: "accepted", at: 3, toA: 2, ids: 2,
		},
		{
			name: "cut after acceptance, and the node says so", a: cutThen(statusOK), aKnows: knows(statusOK, statusUnknown),
			want: "accepted", at: 3, toA: 1, ids: 1,
		},
		{
			name: "cut before acceptance, offered there again", a: cutThen(statusOK),
			want: "accepted", at: 3, toA: 2, ids: 1,
		},
		{
			name: "cut, and found to be a duplicate", a: cutThen(statusDuplicate),
			want: "accepted", at: 3, toA: 2, ids: 1,
		},
		{
			name: "cut, the node gone, known to the other", a: cutThen(statusOK), aKnows: cutQueries, bKnows: knows(statusOK, statusSuccess),
			want: "accepted", at: 4, toA: 1, ids: 1,
		},
		{
			name: "cut, the node gone: nobody else gets it", a: cutThen(statusOK), aKnows: cutQueries, restart: short,
			want: "sent", at: 3, toA: 1, ids: 1,
		},
		{
			name: "cut, and the node says for a while nothing", a: cutThen(statusOK), aKnows: after(3, cutQueries, knows(statusNotFound, 0)),
			want: "accepted", at: 3, toA: 2, ids: 1,
		},
		{
			name: "cut, and the node may have died meanwhile", a: cutThen(statusOK), aKnows: knows(statusNotFound, 0), restart: 1,
			want: "sent", at: 3, toA: 1, ids: 1,
		},
		{
			name: "cut, the node gone, known to the source", a: cutThen(statusOK), aKnows: cutQueries, source: &Receipt{Status: statusSuccess},
			want: "accepted", at: 3, toA: 1, ids: 1,
		},
		{
			name: "cut before acceptance, then busy: elsewhere", a: cutThen(statusBusy),
			want: "accepted", at: 4, toA: 2, toB: 1, ids: 1,
		},
		{
			name: "cut before acceptance, then again: elsewhere", a: func(offer) (hapi.ResponseCodeEnum, error) { return 0, errCut },
			want: "accepted", at: 4, toA: 2, toB: 1, ids: 1,
		},
		{
			name: "cut before acceptance, found to be a duplicate elsewhere", a: cutThen(statusBusy), b: answers(statusDuplicate),
			want: "accepted", at: 4, toA: 2, toB: 1, ids: 1,
		},
		{
			name: "unclear, then refused elsewhere: still unclear", a: cutThen(statusBusy),
			b: answers(hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE), want: "sent", at: 3, toA: 2, toB: 1, ids: 1,
		},
		{
			name: "unclear, then expired: never a new id", a: cutThen(hapi.ResponseCodeEnum_TRANSACTION_EXPIRED),
			want: "sent", at: 3, toA: 2, ids: 1,
		},
		{
			name: "slow, but it took it", a: hang, aKnows: knows(statusOK, statusUnknown), attemptTimeout: 50 * time.Millisecond,
			want: "accepted", at: 3, toA: 1, ids: 1,
		},
		{
			name: "slow, and it may be at it still", a: hang, attemptTimeout: 50 * time.Millisecond, restart: short,
			want: "sent", at: 3, toA: 1, ids: 1,
		},
		{
			name: "slow, and it took it in the end", a: hang, aKnows: after(3, knows(statusNotFound, 0), knows(statusOK, statusUnknown)),
			attemptTimeout: 50 * time.Millisecond, want: "accepted", at: 3, toA: 1, ids: 1,
		},
		{
			name: "status UNKNOWN means submitted", a: answers(statusUnknown), aKnows: knows(statusUnknown, 0),
			want: "accepted", at: 3, toA: 1, ids: 1,
		},
		{
			name: "no such method: not a node", a: fails(codes.Unimplemented),
			want: "accepted", at: 4, toA: 1, toB: 1, ids: 1, senderMovesAway: true,
		},
		{
			name: "a server error says nothing", a: fails(codes.Internal), b: fails(codes.ResourceExhausted),
			want: "sent", at: 4, both: 6, ids: 1,
		},
		{name: "the gate is shut", gate: gateAt(1), want: "not sent", ids: 0, is: errLost},
		{
			name: "the gate shuts after a refusal", a: answers(statusBusy), gate: gateAt(2),
			want: "not sent", toA: 1, ids: 1, is: errLost,
		},
		{
			name: "the gate shuts after an unclear attempt", a: cutThen(statusOK), gate: gateAt(2),
			want: "sent", at: 3, toA: 1, ids: 1, is: errLost,
		},
		{
			name: "same node only: busy", a: answers(statusBusy), sameNode: true, until: true,
			want: "refused BUSY", toA: 10, ids: 1,
		},
		{
			name: "same node only: busy once", a: answers(statusBusy, statusOK), sameNode: true,
			want: "accepted", at: 3, toA: 2, ids: 1,
		},
		{
			name: "same node only: wrong node", a: answers(hapi.ResponseCodeEnum_INVALID_NODE_ACCOUNT), sameNode: true,
			want: "unavailable", toA: 1, ids: 1,
		},
		{
			name: "same node only: unclear, then again", a: cutThen(statusDuplicate), sameNode: true,
			want: "accepted", at: 3, toA: 2, ids: 1,
		},
		{
			name: "same node only: unclear, then busy", a: cutThen(statusBusy), sameNode: true, until: true,
			want: "sent", at: 3, toA: 10, ids: 1,
		},
		{
			name: "same node only: expired", a: answers(hapi.ResponseCodeEnum_TRANSACTION_EXPIRED, statusOK), sameNode: true,
			want: "accepted", at: 3, toA: 2, ids: 2,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			longEnough(t, test.attemptTimeout, func(attemptTimeout time.Duration) (inTime bool) {
				a, b := startNode(t, 3), startNode(t, 4)
				a.submit, a.receipt = test.a, test.aKnows
				b.submit, b.receipt = test.b, test.bKnows
				c, ctx := quick(t, a, b), t.Context()
				if attemptTimeout > 0 {
					c.attemptTimeout = attemptTimeout
					connect(t, c) // which is not what shall time out
				}
				if test.restart > 0 {
					c.pace.restart = test.restart
				}
				if test.until && test.toB > 0 {
					ctx = afterOffers(ctx, test.toA, a, b)
				} else if test.until {
					ctx = afterOffers(ctx, test.toA, a)
				}
				c.ReceiptsAlsoFrom(func(context.Context, hedera.TransactionID) (*Receipt, error) { return test.source, nil })
				sender := senderOf(t, c, a.id)
				pending, err := c.Submit(ctx, Submission{
					Ethereum: unhex(t, goldenRaw), Sender: sender, MaxFee: 100, SameNodeOnly: test.sameNode, BeforeSend: test.gate,
				})
				if attemptTimeout > 0 && len(a.received()) == 0 {
					return false
				}
				if got := certainty(err); got != test.want {
					t.Fatalf("%s, want %s: %v", got, test.want, err)
				}
				if test.is != nil && !errors.Is(err, test.is) {
					t.Errorf("the error does not wrap %q: %v", test.is, err)
				}
				if sent, ok := errors.AsType[*SentError](err); ok {
					pending = sent.Pending
				}
				if test.at != 0 && pending.Node() != hedera.Entity(test.at) {
					t.Errorf("pending at node %s, want 0.0.%d", pending.Node(), test.at)
				}
				if test.both > 0 {
					test.toA = len(a.received())
					if test.toB = test.both - test.toA; test.toA < 2 || test.toB < 2 {
						t.Errorf("%d offers to a and %d to b, want at least two each", test.toA, test.toB)
					}
				}
				if test.until {
					test.toA, test.toB = max(test.toA, len(a.received())), max(test.toB, len(b.received()))
				}
				checkOffers(t, a, b, test.toA, test.toB, test.ids, pending)
				if test.senderMovesAway && !movedAway(c, sender, a.id) {
					t.Error("the sender stays with a node that cannot serve")
				}
				return true
			})
		})
	}
}

// checkOffers counts what arrived, and under which ids.
func checkOffers(t *testing.T, a, b *scriptedNode, toA, toB, wantIDs int, pending *Pending) {
	t.Helper()
	offersA, offersB := a.received(), b.received()
	if len(offersA) != toA || len(offersB) != toB {
		t.Errorf("%d offers to a and %d to b, want %d and %d", len(offersA), len(offersB), toA, toB)
	}
	ids := make(map[hedera.TransactionID]bool)
	for _, o := range append(offersA, offersB...) {
		ids[o.id] = true
	}
	if len(ids) != wantIDs {
		t.Errorf("%d transaction ids were used, want %d", len(ids), wantIDs)
	}
	if pending != nil && wantIDs > 0 && !ids[pending.ID()] {
		t.Errorf("the pending id %s was never offered", pending.ID())
	}
}

// A network whose clock differs from this process's, either way, costs the first submission a
// few offers and the others none.
func TestExpiredMovesTheClock(t *testing.T) {
	for _, skew := range []time.Duration{-100 * time.Second, 5 * time.Minute} {
		t.Run(skew.String(), func(t *testing.T) {
			a := startNode(t, 3)
			a.submit = func(o offer) (hapi.ResponseCodeEnum, error) { // checks as nodes do
				now := time.Now().Add(skew)
				start := o.id.ValidStart.Time()
				if start.After(now) {
					return hapi.ResponseCodeEnum_INVALID_TRANSACTION_START, nil
				}
				if start.Add(ValidDuration - 10*time.Second).Before(now) {
					return hapi.ResponseCodeEnum_TRANSACTION_EXPIRED, nil
				}
				return statusOK, nil
			}
			c := quick(t, a)
			submit := func() (offers int) {
				t.Helper()
				before := len(a.received())
				must.Get(c.Submit(t.Context(), Submission{Ethereum: []byte{1}}))(t)
				return len(a.received()) - before
			}
			if got := submit(); got < 2 {
				t.Errorf("the clock was right: %d offers", got)
			}
			if got := submit(); got != 1 {
				t.Errorf("after the clock was learnt a submission took %d offers", got)
			}
		})
	}
}

func TestNodeDown(t *testing.T) {
	a, b := startNode(t, 3), startNode(t, 4)
	c := quick(t, a, b)
	sender := senderOf(t, c, a.id)
	a.stop()
	pending, err := c.Submit(t.Context(), Submission{Ethereum: []byte{1}, Sender: sender})
	if err != nil || pending.Node() != b.id {
		t.Fatalf("Submit = %v, %v; want node %s", pending, err, b.id)
	}
	if !movedAway(c, sender, a.id) {
		t.Error("the sender stays with a node that is down")
	}
	_, err = c.Submit(t.Context(), Submission{Ethereum: []byte{1}, Sender: sender, Node: a.id, SameNodeOnly: true})
	var unavailable *NodeUnavailableError
	if !errors.As(err, &unavailable) || unavailable.Node != a.id {
		t.Errorf("bound to a node that is down: %v", err)
	}
	if got := len(b.received()); got != 1 {
		t.Errorf("%d offers to b, want 1", got)
	}
	_, err = c.Submit(t.Context(), Submission{Ethereum: []byte{1}, Node: hedera.Entity(99), SameNodeOnly: true})
	if !errors.As(err, &unavailable) || unavailable.Node != hedera.Entity(99) {
		t.Errorf("bound to a node that does not exist: %v", err)
	}
}

func TestNoNodeAtStart(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	endpoint := listener.Addr().String()
	_ = listener.Close()
	c := quickNetwork(t, fmt.Sprintf(`{%q:"0.0.3"}`, endpoint))
	late := &scriptedNode{t: t, id: hedera.Entity(3), public: mustKey(t, devECDSA, hedera.FormatHexECDSA).Public()}
	tried := make(chan struct{})
	var once sync.Once
	go func() {
		must.Until(t, "the first attempt", func() bool { return !c.Nodes()[0].Healthy })
		once.Do(func() { close(tried) })
	}()
	result := make(chan error, 1)
	go func() {
		_, err := c.Submit(t.Context(), Submission{Ethereum: []byte{1}})
		result <- err
	}()
	<-tried
	late.listen(endpoint)
	if err := <-result; err != nil {
		t.Fatalf("Submit did not wait for the node: %v", err)
	}
	if got := len(late.received()); got != 1 {
		t.Errorf("%d offers, want 1", got)
	}
}

// A message that has left is not called back: the node's answer is worth more than the
// time saved.
func TestCancelledInFlightStillHears(t *testing.T) {
	a := startNode(t, 3)
	arrived, lost := make(chan struct{}), make(chan struct{})
	a.submit = func(offer) (hapi.ResponseCodeEnum, error) {
		close(arrived)
		<-lost
		return statusOK, nil
	}
	c := quick(t, a)
	ctx, lose := context.WithCancelCause(t.Context())
	go func() {
		<-arrived
		lose(errLost)
		close(lost)
	}()
	if _, err := c.Submit(ctx, Submission{Ethereum: []byte{1}}); err != nil {
		t.Errorf("%s although the node accepted it: %v", certainty(err), err)
	}
	if !c.Nodes()[0].Healthy {
		t.Error("the caller's cancellation is held against the node")
	}
}

// A submission bound to a node that refuses connections may go to another as soon as its
// caller says that the order is safe; one that the node may have may not, whatever the
// caller says.
func TestBoundSubmissionIsFreed(t *testing.T) {
	for name, test := range map[string]struct {
		down   bool
		script func(offer) (hapi.ResponseCodeEnum, error)
		want   string
		asked  int
	}{
		"refuses connections":  {true, nil, "accepted", 1},
		"cannot take it twice": {false, cutThen(statusBusy), "accepted", 1},
		"may have it":          {false, hang, "sent", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			longEnough(t, 100*time.Millisecond, func(timeout time.Duration) (inTime bool) {
				first, other := startNode(t, 3), startNode(t, 4)
				first.submit = test.script
				c := quick(t, first, other)
				if test.down {
					first.stop()
				} else {
					connect(t, c) // which is not what shall time out
				}
				if hangs := test.asked == 0; hangs {
					c.pace.restart, c.attemptTimeout = 300*time.Millisecond, timeout
				}
				asked := 0
				pending, err := c.Submit(t.Context(), Submission{
					Ethereum: []byte{1}, Node: first.id, SameNodeOnly: true,
					Free: func(context.Context) error { asked++; return nil },
				})
				if !test.down && len(first.received()) == 0 {
					return false
				}
				if got := certainty(err); got != test.want || asked != test.asked {
					t.Errorf("%s after %d questions, want %s after %d: %v", got, asked, test.want, test.asked, err)
				}
				if err == nil && pending.Node() != other.id {
					t.Errorf("accepted by node %s", pending.Node())
				}
				return true
			})
		})
	}
}

// A node that is out is not given what it might swallow; a query shows that it is back.
func TestBoundToANodeThatIsOut(t *testing.T) {
	for name, test := range map[string]struct {
		receipts receiptScript
		want     string
		offers   int
		asked    int
	}{
		"silent still": {cutQueries, "unavailable", 0, 1},
		"back":         {knows(statusNotFound, 0), "accepted", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startNode(t, 3)
			a.receipt = test.receipts
			c := quick(t, a, startNode(t, 4))
			keepOut(c.nodes.find(a.id), errNoAnswer)
			asked := 0
			_, err := c.Submit(t.Context(), Submission{
				Ethereum: []byte{1}, Node: a.id, SameNodeOnly: true,
				Free: func(context.Context) error { asked++; return errLost },
			})
			if got := certainty(err); got != test.want || asked != test.asked || len(a.received()) != test.offers {
				t.Errorf("%s after %d questions and %d offers: %v", got, asked, len(a.received()), err)
			}
		})
	}
}

func TestCancelled(t *testing.T) {
	a := startNode(t, 3)
	a.receipt = knows(statusOK, statusSuccess)
	arrived := make(chan struct{})
	a.submit = func(o offer) (hapi.ResponseCodeEnum, error) {
		close(arrived)
		return hang(o)
	}
	c := quick(t, a)
	c.attemptTimeout = 2 * time.Second // for which the answer is waited for

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Submit(ctx, Submission{Ethereum: []byte{1}})
	if got := certainty(err); got != "not sent" || !errors.Is(err, context.Canceled) {
		t.Errorf("%s when cancelled beforehand: %v", got, err)
	}

	ctx, lose := context.WithCancelCause(t.Context())
	go func() {
		<-arrived
		lose(errLost)
	}()
	_, err = c.Submit(ctx, Submission{Ethereum: []byte{1}})
	var sent *SentError
	if !errors.As(err, &sent) || !errors.Is(err, context.Canceled) || !errors.Is(err, errLost) {
		t.Fatalf("%s when cancelled in flight at a silent node: %v", certainty(err), err)
	}
	receipt, err := sent.Pending.Receipt(t.Context())
	if err != nil || receipt.Status != statusSuccess {
		t.Errorf("the receipt of an unclear submission = %v, %v", receipt, err)
	}
}

// TestConnectionsThatAge submits through a node that closes its connections all the
// time, as real ones do: nothing is lost and nothing arrives twice.
func TestConnectionsThatAge(t *testing.T) {
	a := startNode(t, 3, grpc.KeepaliveParams(keepalive.ServerParameters{
		MaxConnectionAge: 20 * time.Millisecond, MaxConnectionAgeGrace: patience,
	}))
	c := quick(t, a)
	var group sync.WaitGroup
	const workers, each = 8, 100
	for range workers {
		group.Go(func() {
			for range each {
				if _, err := c.Submit(t.Context(), Submission{Ethereum: []byte{1}, SameNodeOnly: true}); err != nil {
					t.Errorf("Submit: %v", err)
					return
				}
			}
		})
	}
	group.Wait()
	ids := make(map[hedera.TransactionID]int)
	for _, o := range a.received() {
		ids[o.id]++
	}
	if len(ids) != workers*each || len(a.received()) != workers*each {
		t.Errorf("%d offers with %d ids, want %d", len(a.received()), len(ids), workers*each)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.conns) < 2 {
		t.Errorf("%d connections: none was closed", len(a.conns))
	}
}

func TestNothingToSend(t *testing.T) {
	c := must.Get(New(Config{Network: `{"127.0.0.1:1":"0.0.3"}`, MaxAttempts: 1, AttemptTimeout: 1e9, RequestTimeout: 1e9}, quickLog(t)))(t)
	if _, ok := c.OperatorAddress(); ok {
		t.Error("the address of no operator")
	}
	if _, ok := c.Operator(); ok {
		t.Error("an operator out of nowhere")
	}
	if _, err := c.Submit(t.Context(), Submission{Ethereum: []byte{1}}); !errors.Is(err, ErrNoOperator) || certainty(err) != "not sent" {
		t.Errorf("without an operator: %v", err)
	}
	if _, err := c.Submit(t.Context(), Submission{}); certainty(err) != "not sent" {
		t.Errorf("without a transaction: %v", err)
	}
	payer := &Operator{ID: hedera.Entity(9), Key: mustKey(t, devECDSA, hedera.FormatHexECDSA)}
	must.Do(t, c.Close())
	if _, err := c.Submit(t.Context(), Submission{Ethereum: []byte{1}, Payer: payer}); !errors.Is(err, ErrClosed) || certainty(err) != "not sent" {
		t.Errorf("after Close: %v", err)
	}
}

func TestPayerOfASubmission(t *testing.T) {
	a := startNode(t, 3)
	c := quick(t, a)
	payer := &Operator{ID: hedera.Entity(77), Key: mustKey(t, devECDSA, hedera.FormatHexECDSA)}
	pending := must.Get(c.Submit(t.Context(), Submission{Ethereum: []byte{1}, Payer: payer, MaxGasAllowance: 5, MaxFee: 6}))(t)
	o := a.received()[0]
	if o.id.Payer != payer.ID || pending.ID() != o.id {
		t.Errorf("transaction id %s, pending %s, want payer %s", o.id, pending.ID(), payer.ID)
	}
	if got := o.body.GetEthereumTransaction().GetMaxGasAllowance(); got != 5 || o.body.GetTransactionFee() != 6 {
		t.Errorf("allowance %d, fee %d", got, o.body.GetTransactionFee())
	}
}

// forgetful is a node that knows what it has accepted, until it is killed.
type forgetful struct {
	*scriptedNode
	mu    sync.Mutex
	has   map[hedera.TransactionID]bool
	asked map[hedera.TransactionID]int // denials
}

func startForgetful(t *testing.T) *forgetful {
	f := &forgetful{scriptedNode: startNode(t, 3), has: map[hedera.TransactionID]bool{}, asked: map[hedera.TransactionID]int{}}
	f.submit = func(o offer) (hapi.ResponseCodeEnum, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.has[o.id] = true
		return statusOK, nil
	}
	f.receipt = func(_ int, id hedera.TransactionID) (hapi.ResponseCodeEnum, hapi.ResponseCodeEnum, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.has[id] {
			return statusOK, statusUnknown, nil
		}
		f.asked[id]++
		return statusNotFound, 0, nil
	}
	return f
}

// kill drops the connections and what it has accepted.
func (f *forgetful) kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.has)
	f.cut()
}

func (f *forgetful) denials(id hedera.TransactionID) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[id]
}

// A node was killed with what it had accepted last. What follows it there waits until it has been offered again, and,
// if nobody offers it, goes all the same.
func TestWhatFollowsALostTransaction(t *testing.T) {
	for name, again := range map[string]bool{"it is offered again": true, "nobody offers it": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startForgetful(t)
			c := quick(t, a.scriptedNode)
			if !again {
				c.pace.lost = 100 * time.Millisecond
			}
			s := Submission{Ethereum: unhex(t, goldenRaw), MaxFee: 100}
			first := must.Get(c.Submit(t.Context(), s))(t)
			a.kill()
			next := s
			next.Node, next.SameNodeOnly, next.After = a.id, true, first.ID()
			second := make(chan *Pending, 1)
			go func() {
				p, err := c.Submit(t.Context(), next)
				if err != nil {
					t.Error(err)
				}
				second <- p
			}()
			if again {
				for a.denials(first.ID()) < 3 {
					<-time.After(time.Millisecond)
				}
				if !c.OfferAgain(t.Context(), s, first) {
					t.Error("the first is not taken again")
				}
			}
			p := <-second
			var order []hedera.TransactionID
			for _, o := range a.received() {
				order = append(order, o.id)
			}
			want := []hedera.TransactionID{first.ID(), p.ID()}
			if again {
				want = []hedera.TransactionID{first.ID(), first.ID(), p.ID()}
			}
			if !slices.Equal(order, want) {
				t.Errorf("offered %v, want %v", order, want)
			}
		})
	}
}

// Where the connection is older than the transaction before, nobody asks about that one.
func TestNobodyAsksWhileTheConnectionLives(t *testing.T) {
	t.Parallel()
	a := startForgetful(t)
	c := quick(t, a.scriptedNode)
	s := Submission{Ethereum: unhex(t, goldenRaw), MaxFee: 100}
	for range 5 {
		p := must.Get(c.Submit(t.Context(), s))(t)
		s.Node, s.SameNodeOnly, s.After = a.id, true, p.ID()
	}
	a.scriptedNode.mu.Lock()
	defer a.scriptedNode.mu.Unlock()
	if a.queries > 1 { // the first one may have its id before there is a connection
		t.Errorf("%d queries", a.queries)
	}
}

// Whoever waits for the receipt hears that its node has lost the transaction.
func TestDenied(t *testing.T) {
	t.Parallel()
	a := startForgetful(t)
	c := quick(t, a.scriptedNode)
	p := must.Get(c.Submit(t.Context(), Submission{Ethereum: unhex(t, goldenRaw), MaxFee: 100}))(t)
	go func() { _, _ = p.Receipt(t.Context()) }()
	asked := func() int {
		a.scriptedNode.mu.Lock()
		defer a.scriptedNode.mu.Unlock()
		return a.queries
	}
	for asked() < 3 {
		<-time.After(time.Millisecond)
	}
	select {
	case <-p.Denied():
		t.Fatal("its node knows it")
	default:
	}
	a.kill()
	select {
	case <-p.Denied():
	case <-time.After(patience):
		t.Fatal("nobody says that its node has lost it")
	}
}

// endpoint returns an address of this machine that refuses connections or, as a black hole, where connections are taken and nothing
// is ever said. It is nobody else's meanwhile: a socket that does not listen has it.
func endpoint(t *testing.T, blackHole bool) string {
	t.Helper()
	if blackHole {
		listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		t.Cleanup(func() { _ = listener.Close() })
		return listener.Addr().String()
	}
	socket := must.Get(syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { _ = syscall.Close(socket) })
	must.Do(t, syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	at := must.Get(syscall.Getsockname(socket))(t)
	return fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port)
}

// A node that failed last time is asked, once its pause is over, whether it answers again, before it is given a transaction that it might
// swallow: every sender of a node that stands still had one of an unknown outcome.
func TestANodeThatFailedIsAskedFirst(t *testing.T) {
	for name, test := range map[string]struct {
		receipts receiptScript
		alone    bool
		at       int64
	}{
		"silent still":            {cutQueries, false, 4},
		"back":                    {knows(statusNotFound, 0), false, 3},
		"silent, and no other is": {cutQueries, true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startNode(t, 3)
			a.receipt = test.receipts
			nodes := []*scriptedNode{a}
			if !test.alone {
				nodes = append(nodes, startNode(t, 4))
			}
			c := quick(t, nodes...)
			home := c.nodes.find(a.id)
			sender := common.Address{}
			for c.nodes.best(sender, nil) != home {
				sender[0]++
			}
			home.failed(errNoAnswer, false)
			home.retryAt.Store(1) // its pause is over
			pending, err := c.Submit(t.Context(), Submission{Ethereum: []byte{1}, Sender: sender})
			if err != nil || pending.Node() != hedera.Entity(test.at) {
				t.Errorf("%v: %v", pending, err)
			}
		})
	}
}

// That a caller has no more time for a query is not a node's fault.
func TestNoTimeIsNoFault(t *testing.T) {
	c := quick(t, startNode(t, 3))
	n := c.nodes.all()[0]
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if state := c.stateAt(ctx, n, hedera.TransactionID{}); state != idUnclear || n.retryAt.Load() != 0 {
		t.Errorf("state %d, and the node is out because of %v", state, n.lastErr)
	}
}

// TestOutage: when no node can take a transaction, its submission ends when its time is up, not after
// some number of attempts, and says why: no node can be reached, or nodes are there and busy. One
// good node among many is found in that time.
func TestOutage(t *testing.T) {
	const many = 30
	for _, test := range []struct {
		name                      string
		refused, silent, busy, up int
		want                      string
	}{
		{name: "one, refused", refused: 1, want: "not sent"},
		{name: "one, silent", silent: 1, want: "not sent"},
		{name: "one, busy", busy: 1, want: "refused BUSY"},
		{name: "all refused", refused: many, want: "not sent"},
		{name: "all silent", silent: many, want: "not sent"},
		{name: "all busy", busy: many, want: "refused BUSY"},
		{name: "one busy, the others refused", refused: many - 1, busy: 1, want: "refused BUSY"},
		{name: "one up, the others refused", refused: many - 1, up: 1, want: "accepted"},
		{name: "one up, the others silent", silent: many - 1, up: 1, want: "accepted"},
		{name: "one up, the others busy", busy: many - 1, up: 1, want: "accepted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			network := map[string]string{}
			account := func() hedera.ID { return hedera.Entity(int64(3 + len(network))) }
			for range test.refused {
				network[endpoint(t, false)] = account().String()
			}
			for range test.silent {
				network[endpoint(t, true)] = account().String()
			}
			var nodes []*scriptedNode
			for range test.busy {
				n := startNode(t, account().Num)
				n.submit = answers(statusBusy)
				network[n.endpoint], nodes = n.id.String(), append(nodes, n)
			}
			for range test.up {
				n := startNode(t, account().Num)
				network[n.endpoint], nodes = n.id.String(), append(nodes, n)
			}
			text, err := json.Marshal(network)
			if err != nil {
				t.Fatal(err)
			}
			c := quickNetwork(t, string(text))
			c.maxAttempts = 1
			if test.silent > 0 {
				c.pace.connect = 20 * time.Millisecond
			}
			ctx := t.Context()
			switch test.want {
			case "refused BUSY": // its time is up when it has been refused again and again
				ctx = afterOffers(ctx, 3, nodes...)
			case "not sent":
				c.requestTimeout = 500 * time.Millisecond
			}
			_, err = c.Submit(ctx, Submission{Ethereum: unhex(t, goldenRaw), Sender: hedera.Entity(7).LongZero(), MaxFee: 100})
			if got := certainty(err); got != test.want || err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s, want %s: %v", got, test.want, err)
			}
			ids := map[hedera.TransactionID]bool{}
			for _, n := range nodes {
				for _, o := range n.received() {
					ids[o.id] = true
				}
			}
			if want := min(1, len(nodes)); len(ids) != want {
				t.Errorf("offered under %d ids, want %d", len(ids), want)
			}
		})
	}
}
