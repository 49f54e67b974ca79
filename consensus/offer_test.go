package consensus

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// envelope wraps a transaction for a node under a fresh id.
func offered(t *testing.T, c *Client, node hedera.ID) Submission {
	t.Helper()
	id := must.Get(c.NewID(node.LongZero()))(t)
	return Submission{Ethereum: unhex(t, goldenRaw), ID: id, Node: node, MaxFee: 100}
}

// TestOffer: one offer is one offer. Whatever the node does, the bytes go out at most once, to the
// named node, under the caller's id, and the type of the error says what is known.
func TestOffer(t *testing.T) {
	other := &Operator{ID: hedera.Entity(77), Key: mustKey(t, devECDSA, hedera.FormatHexECDSA)}
	for _, test := range []struct {
		name    string
		submit  func(offer) (hapi.ResponseCodeEnum, error)
		change  func(*Submission)
		stopped bool
		silent  bool   // the offer ends by the clock
		want    string // certainty
		offers  int
		is      error
	}{
		{name: "accepted", want: "accepted", offers: 1},
		{name: "the caller's own payer", change: func(e *Submission) { e.ID.Payer, e.Payer = other.ID, other }, want: "accepted", offers: 1},
		{name: "busy", submit: answers(statusBusy), want: "refused BUSY", offers: 1},
		{name: "not active", submit: answers(hapi.ResponseCodeEnum_PLATFORM_NOT_ACTIVE), want: "refused PLATFORM_NOT_ACTIVE", offers: 1},
		{name: "refused", submit: answers(hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE), want: "refused INSUFFICIENT_TX_FEE", offers: 1},
		{name: "too large", submit: answers(hapi.ResponseCodeEnum_TRANSACTION_OVERSIZE), want: "refused TRANSACTION_OVERSIZE", offers: 1},
		{name: "expired", submit: answers(hapi.ResponseCodeEnum_TRANSACTION_EXPIRED), want: "refused TRANSACTION_EXPIRED", offers: 1},
		{name: "known", submit: answers(statusDuplicate), want: "duplicate", offers: 1},
		{name: "the node cannot say", submit: answers(statusUnknown), want: "sent", offers: 1},
		{name: "cut after the bytes left", submit: func(offer) (hapi.ResponseCodeEnum, error) { return 0, errCut }, want: "sent", offers: 1},
		{name: "no answer", submit: hang, silent: true, want: "sent", offers: 1},
		{name: "a server that is no node", submit: fails(codes.Unimplemented), want: "not sent", offers: 1},
		{name: "nobody there", stopped: true, want: "not sent"},
		{name: "kept back", change: func(e *Submission) { e.BeforeSend = func() error { return errLost } }, want: "not sent", is: errLost},
		{name: "no such node", change: func(e *Submission) { e.Node = hedera.Entity(99) }, want: "not sent", is: errNotListed},
		{name: "nobody's payer", change: func(e *Submission) { e.ID.Payer = hedera.Entity(99) }, want: "not sent", is: ErrNoOperator},
		{name: "another's payer", change: func(e *Submission) { e.Payer = other }, want: "not sent"},
		{name: "nothing", change: func(e *Submission) { e.Ethereum = nil }, want: "not sent"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			longEnough(t, 300*time.Millisecond, func(timeout time.Duration) (inTime bool) {
				a, b := startNode(t, 3), startNode(t, 4)
				a.submit = test.submit
				c := quick(t, a, b)
				if test.silent {
					c.attemptTimeout = timeout
				}
				if test.stopped {
					a.stop()
				} else {
					connect(t, c) // which is not what shall time out
				}
				e := offered(t, c, a.id)
				if test.change != nil {
					test.change(&e)
				}
				pending, err := c.Offer(t.Context(), e)
				if test.silent && len(a.received()) == 0 {
					return false
				}
				if got := certainty(err); got != test.want || test.is != nil && !errors.Is(err, test.is) {
					t.Fatalf("%s, want %s: %v", got, test.want, err)
				}
				var sent *SentError
				var duplicate *DuplicateError
				switch {
				case errors.As(err, &sent):
					pending = sent.Pending
				case errors.As(err, &duplicate):
					pending = duplicate.Pending
				}
				if pending != nil && (pending.ID() != e.ID || pending.Node() != a.id) {
					t.Errorf("pending %s at node %s", pending.ID(), pending.Node())
				}
				got := a.received()
				if len(got) != test.offers || len(b.received()) != 0 {
					t.Errorf("%d offers to the node, want %d, and %d to the other", len(got), test.offers, len(b.received()))
				}
				for _, o := range got {
					if o.id != e.ID {
						t.Errorf("offered under the id %s, not %s", o.id, e.ID)
					}
				}
				return true
			})
		})
	}
}

// The same envelope is the same bytes, and for another node only the node differs.
func TestOfferIsRepeatable(t *testing.T) {
	a, b := startNode(t, 3), startNode(t, 4)
	a.submit = cutThen(statusDuplicate)
	c := quick(t, a, b)
	e := offered(t, c, a.id)
	for i, want := range []string{"sent", "duplicate"} {
		if _, err := c.Offer(t.Context(), e); certainty(err) != want {
			t.Fatalf("offer %d: %v, want %s", i, err, want)
		}
	}
	e.Node = b.id
	must.Get(c.Offer(t.Context(), e))(t)
	first, second, third := a.received()[0].body, a.received()[1].body, b.received()[0].body
	if !proto.Equal(first, second) {
		t.Errorf("the second offer differs:\n%v\n%v", first, second)
	}
	third.NodeAccountID = first.GetNodeAccountID()
	if !proto.Equal(first, third) {
		t.Errorf("the offer to another node differs in more than the node:\n%v\n%v", first, third)
	}
}

// A refused id teaches the client the network's clock, so that ids drawn from then on are valid;
// the refusal of an old id teaches nothing.
func TestOfferMovesTheClock(t *testing.T) {
	a := startNode(t, 3)
	a.submit = answers(hapi.ResponseCodeEnum_INVALID_TRANSACTION_START)
	c, begun := quick(t, a), time.Now()
	e := offered(t, c, a.id)
	old := e
	old.ID.ValidStart = hedera.FromNanos(e.ID.ValidStart.UnixNano() - int64(time.Hour))
	for _, refused := range []Submission{old, e, e} {
		if _, err := c.Offer(t.Context(), refused); certainty(err) != "refused INVALID_TRANSACTION_START" {
			t.Fatal(err)
		}
	}
	next := offered(t, c, a.id)
	if step := e.ID.ValidStart.Time().Sub(next.ID.ValidStart.Time()); step < skewStep-time.Since(begun)-time.Second || step > skewStep {
		t.Errorf("the next id is %v earlier, want one step of %v", step, skewStep)
	}
}

// NodesFor begins with the sender's own node and puts those that are out last.
func TestNodesFor(t *testing.T) {
	a, b, d := startNode(t, 3), startNode(t, 4), startNode(t, 5)
	c := quick(t, a, b, d)
	sender := senderOf(t, c, a.id)
	if got := c.NodesFor(sender); len(got) != 3 || got[0] != a.id || got[1] == got[2] {
		t.Errorf("NodesFor = %v", got)
	}
	keepOut(c.nodes.find(a.id), errNoConnection)
	if got := c.NodesFor(sender); len(got) != 3 || got[2] != a.id || got[0] != c.nodeFor(sender) {
		t.Errorf("with %s out: %v", a.id, got)
	}
}

// ReceiptAt asks the named node and no other, and keeps "nothing yet" and "never heard of it" apart.
func TestReceiptAt(t *testing.T) {
	for _, test := range []struct {
		name  string
		knows receiptScript
		is    error
	}{
		{name: "a verdict", knows: knows(statusOK, statusSuccess)},
		{name: "in progress", knows: knows(statusOK, statusUnknown), is: ErrInProgress},
		{name: "unknown", knows: knows(statusNotFound, 0), is: ErrUnknownID},
		{name: "no answer", knows: cutQueries, is: errAny},
		{name: "busy", knows: knows(statusBusy, 0), is: errAny},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a, b := startNode(t, 3), startNode(t, 4)
			a.receipt, b.receipt = test.knows, knows(statusOK, statusSuccess)
			c := quick(t, a, b)
			receipt, err := c.ReceiptAt(t.Context(), goldenID(), a.id)
			switch proof := errors.Is(err, ErrInProgress) || errors.Is(err, ErrUnknownID); {
			case test.is == nil:
				if err != nil || receipt.Status != statusSuccess || receipt.Node != a.id || receipt.TransactionID != goldenID() {
					t.Errorf("ReceiptAt = %+v, %v", receipt, err)
				}
			case errors.Is(test.is, errAny):
				if err == nil || proof {
					t.Errorf("ReceiptAt = %v, which says something about the transaction", err)
				}
			case !errors.Is(err, test.is):
				t.Errorf("ReceiptAt = %v, want %v", err, test.is)
			}
			if b.queries != 0 {
				t.Error("the other node was asked")
			}
		})
	}
	c := quick(t, startNode(t, 3))
	if _, err := c.ReceiptAt(t.Context(), goldenID(), hedera.Entity(99)); !errors.Is(err, errNotListed) {
		t.Errorf("a node that is not there: %v", err)
	}
}

// errAny stands for an error that is none of the package's.
var errAny = errors.New("any other")

// OfferAgain brings a transaction to its own node, under its own id, only if the node says that it has
// not got it; whoever paid for the first offer pays for this one, however operators are chosen.
func TestOfferAgain(t *testing.T) {
	for _, test := range []struct {
		name   string
		knows  receiptScript
		other  receiptScript // of the other node; nil: it knows nothing
		after  bool          // it follows another one
		submit func(offer) (hapi.ResponseCodeEnum, error)
		taken  bool
		offers int
	}{
		{name: "the node has it", knows: knows(statusOK, statusUnknown), taken: true},
		{name: "the node does not answer", knows: cutQueries},
		{name: "the node never heard of it", knows: knows(statusNotFound, 0), taken: true, offers: 1},
		{name: "another node has it", knows: knows(statusNotFound, 0), other: knows(statusOK, statusUnknown), taken: true},
		{name: "the node lost what it follows, too", after: true, knows: knows(statusNotFound, 0)},
		{name: "what it follows is at another node", after: true, knows: knows(statusNotFound, 0), other: knowsOf(predecessor), taken: true, offers: 1},
		{name: "the node has what it follows", after: true, knows: knowsOf(predecessor), taken: true, offers: 1},
		{name: "the first offer came meanwhile", knows: knows(statusNotFound, 0), submit: answers(statusDuplicate), taken: true, offers: 1},
		{name: "the node is busy", knows: knows(statusNotFound, 0), submit: answers(statusBusy), offers: 1},
		{name: "unclear again", knows: knows(statusNotFound, 0), submit: func(offer) (hapi.ResponseCodeEnum, error) { return 0, errCut }, offers: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a, b := startNode(t, 3), startNode(t, 4)
			a.receipt, a.submit, b.receipt = test.knows, test.submit, test.other
			c := quick(t, a, b)
			main := c.operators.main()
			other := &Operator{ID: hedera.Entity(1003), Key: main.Key}
			c.operators = &operators{all: []*Operator{main, other}, inTurn: true}
			id := hedera.TransactionID{Payer: other.ID, ValidStart: hedera.FromNanos(time.Now().Add(-time.Second).UnixNano())}
			s := Submission{Ethereum: unhex(t, goldenRaw), MaxFee: 100}
			if test.after {
				s.Node, s.After = a.id, predecessor
			}
			if got := c.OfferAgain(t.Context(), s, c.Pending(id, a.id)); got != test.taken {
				t.Errorf("taken: %v, want %v", got, test.taken)
			}
			offers := a.received()
			if len(offers) != test.offers || len(b.received()) != 0 {
				t.Fatalf("%d offers to the node, want %d, and %d to the other", len(offers), test.offers, len(b.received()))
			}
			if len(offers) == 1 && offers[0].id != id {
				t.Errorf("offered under %s, want %s", offers[0].id, id)
			}
		})
	}
}

// predecessor is the id of a transaction that others follow.
var predecessor = hedera.TransactionID{Payer: hedera.Entity(1002), ValidStart: hedera.FromNanos(1_700_000_000_000_000_000)}

// knowsOf answers queries about one transaction only.
func knowsOf(id hedera.TransactionID) receiptScript {
	return func(_ int, asked hedera.TransactionID) (hapi.ResponseCodeEnum, hapi.ResponseCodeEnum, error) {
		if asked == id {
			return statusOK, statusUnknown, nil
		}
		return statusNotFound, 0, nil
	}
}
