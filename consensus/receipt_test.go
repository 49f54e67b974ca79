package consensus

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// pendingAt is a transaction that a node accepted, of a given age.
func pendingAt(c *Client, num int64, age time.Duration) *Pending {
	id := hedera.TransactionID{Payer: hedera.Entity(1002), ValidStart: hedera.TimestampOf(time.Now().Add(-age))}
	return c.Pending(id, hedera.Entity(num))
}

func TestPendingOfAnUnknownNode(t *testing.T) {
	a := startNode(t, 3)
	a.receipt = knows(statusOK, statusSuccess)
	receipt, err := pendingAt(quick(t, a), 99, time.Second).Receipt(t.Context())
	if err != nil || receipt.Node != a.id {
		t.Errorf("Receipt = %+v, %v", receipt, err)
	}
}

func TestReceiptAfterAWhile(t *testing.T) {
	a := startNode(t, 3)
	a.receipt = func(n int, _ hedera.TransactionID) (header, receipt hapi.ResponseCodeEnum, err error) {
		switch n {
		case 1:
			return statusNotFound, 0, nil
		case 2:
			return statusOK, statusUnknown, nil
		case 3:
			return statusBusy, 0, nil
		case 4:
			return hapi.ResponseCodeEnum_PLATFORM_NOT_ACTIVE, 0, nil
		default:
			return statusOK, hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED, nil
		}
	}
	c := quick(t, a)
	pending := must.Get(c.Submit(t.Context(), Submission{Ethereum: []byte{1}}))(t)
	receipt := must.Get(pending.Receipt(t.Context()))(t)
	want := Receipt{
		TransactionID: pending.ID(), Status: hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED, Node: a.id,
	}
	if receipt != want {
		t.Errorf("receipt %+v, want %+v", receipt, want)
	}
}

func TestReceiptFromAnotherNode(t *testing.T) {
	for name, fail := range map[string]func(a *scriptedNode){
		"gone":   func(a *scriptedNode) { a.stop() },
		"broken": func(a *scriptedNode) { a.receipt = cutQueries },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := startNode(t, 3), startNode(t, 4)
			b.receipt = knows(statusOK, statusSuccess)
			fail(a)
			c := quick(t, a, b)
			receipt, err := pendingAt(c, 3, time.Second).Receipt(t.Context())
			if err != nil || receipt.Status != statusSuccess || receipt.Node != b.id {
				t.Errorf("Receipt = %+v, %v", receipt, err)
			}
		})
	}
}

func TestReceiptThatNeverComes(t *testing.T) {
	tests := []struct {
		name   string
		age    time.Duration
		aKnows func(int, hedera.TransactionID) (hapi.ResponseCodeEnum, hapi.ResponseCodeEnum, error)
		bKnows func(int, hedera.TransactionID) (hapi.ResponseCodeEnum, hapi.ResponseCodeEnum, error)
		want   error // nil: a receipt
	}{
		{name: "still valid", age: time.Minute, want: context.DeadlineExceeded},
		{name: "validity over", age: 140 * time.Second, want: ErrReceiptNotFound},
		{name: "validity over, accepted but never handled", age: 140 * time.Second, aKnows: knows(statusOK, statusUnknown), want: ErrReceiptNotFound},
		{name: "validity over, one node is behind", age: 140 * time.Second, bKnows: knows(statusOK, statusSuccess)},
		{name: "validity over, nobody answers", age: 140 * time.Second, aKnows: cutQueries, bKnows: cutQueries, want: context.DeadlineExceeded},
		{name: "so old that receipts are gone", age: 200 * time.Second, want: ErrReceiptExpired},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a, b := startNode(t, 3), startNode(t, 4)
			a.receipt, b.receipt = test.aKnows, test.bKnows
			c := quick(t, a, b)
			ctx := t.Context()
			if errors.Is(test.want, context.DeadlineExceeded) {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 300*time.Millisecond)
				defer cancel()
			}
			_, err := pendingAt(c, 3, test.age).Receipt(ctx)
			if !errors.Is(err, test.want) {
				t.Errorf("Receipt: %v, want %v", err, test.want)
			}
			if definite := errors.Is(err, ErrReceiptNotFound); definite != errors.Is(test.want, ErrReceiptNotFound) {
				t.Errorf("claims that it was never executed: %v", err)
			}
		})
	}
}

func TestReadReceipt(t *testing.T) {
	file := hedera.ID{Shard: 7, Realm: 8, Num: 9}
	full := &hapi.TransactionReceipt{Status: statusSuccess, FileID: file.FileID()}
	answer := func(header hapi.ResponseCodeEnum, receipt *hapi.TransactionReceipt) *hapi.Response {
		return &hapi.Response{Response: &hapi.Response_TransactionGetReceipt{TransactionGetReceipt: &hapi.TransactionGetReceiptResponse{
			Header: &hapi.ResponseHeader{NodeTransactionPrecheckCode: header}, Receipt: receipt,
		}}}
	}
	receipt, what, err := readReceipt(answer(statusOK, full))
	if want := (Receipt{Status: statusSuccess, File: file}); err != nil || what != idKnown || receipt == nil || *receipt != want {
		t.Errorf("readReceipt = %+v, %v, %v", receipt, what, err)
	}
	tests := []struct {
		name     string
		response *hapi.Response
		want     idState
		fails    bool
	}{
		{"another kind of answer", &hapi.Response{}, idUnclear, true},
		{"no receipt", answer(statusOK, nil), idUnclear, true},
		{"not yet", answer(statusOK, &hapi.TransactionReceipt{Status: statusUnknown}), idKnown, false},
		{"not yet, by header", answer(statusUnknown, nil), idKnown, false},
		{"not found", answer(statusNotFound, nil), idUnknown, false},
		{"not found, by receipt", answer(statusOK, &hapi.TransactionReceipt{Status: statusNotFound}), idUnknown, false},
		{"busy", answer(statusBusy, nil), idUnclear, true},
	}
	for _, test := range tests {
		receipt, what, err := readReceipt(test.response)
		if receipt != nil || what != test.want || (err != nil) != test.fails {
			t.Errorf("%s: %+v, %v, %v", test.name, receipt, what, err)
		}
	}
}

// FuzzReadReceipt feeds a node's bytes to the decoder and the reader of receipts:
// whatever they are, there is no panic, and a receipt comes only with certainty.
func FuzzReadReceipt(f *testing.F) {
	good := must.Get(proto.Marshal(&hapi.Response{Response: &hapi.Response_TransactionGetReceipt{TransactionGetReceipt: &hapi.TransactionGetReceiptResponse{
		Header: &hapi.ResponseHeader{}, Receipt: &hapi.TransactionReceipt{Status: statusSuccess},
	}}}))(f)
	f.Add(good)
	f.Add([]byte{0x72, 0x00})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, wire []byte) {
		var response hapi.Response
		if proto.Unmarshal(wire, &response) != nil {
			return
		}
		receipt, what, err := readReceipt(&response)
		if (receipt != nil) && (what != idKnown || err != nil) || (err != nil) != (what == idUnclear) {
			t.Errorf("readReceipt = %+v, %v, %v", receipt, what, err)
		}
	})
}

// When no node tells what became of a transaction, the source may, and what it does not
// know changes nothing.
func TestReceiptSource(t *testing.T) {
	reverted := hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED
	over := ValidDuration + receiptGrace + time.Second
	for name, test := range map[string]struct {
		node   func(*scriptedNode)
		age    time.Duration
		source func() (*Receipt, error)
		want   error // nil: the source's receipt
		asked  bool
	}{
		"nodes do not answer":            {(*scriptedNode).stop, 0, func() (*Receipt, error) { return &Receipt{Status: reverted}, nil }, nil, true},
		"nodes know nothing, too late":   {nil, over, func() (*Receipt, error) { return &Receipt{Status: reverted}, nil }, nil, true},
		"nobody knows, too late":         {nil, over, func() (*Receipt, error) { return nil, nil }, ErrReceiptNotFound, true},
		"source fails, nodes are sure":   {nil, over, func() (*Receipt, error) { return nil, errors.New("no answer") }, ErrReceiptNotFound, true},
		"nodes forgot, the source knows": {(*scriptedNode).stop, ReceiptKept + time.Second, func() (*Receipt, error) { return &Receipt{Status: reverted}, nil }, nil, true},
		"nodes forgot, nobody knows":     {(*scriptedNode).stop, ReceiptKept + time.Second, func() (*Receipt, error) { return nil, nil }, ErrReceiptExpired, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startNode(t, 3)
			if test.node != nil {
				test.node(a)
			}
			c := quick(t, a)
			asked := false
			p := pendingAt(c, 3, test.age)
			c.ReceiptsAlsoFrom(func(_ context.Context, id hedera.TransactionID) (*Receipt, error) {
				asked = true
				if id != p.ID() {
					t.Errorf("asked for %s, want %s", id, p.ID())
				}
				return test.source()
			})
			receipt, err := p.Receipt(t.Context())
			if !errors.Is(err, test.want) || test.want == nil && receipt.Status != reverted || asked != test.asked {
				t.Errorf("Receipt = %+v, %v; asked %v", receipt, err, asked)
			}
		})
	}
	t.Run("nodes that answer need no source", func(t *testing.T) {
		a := startNode(t, 3)
		a.receipt = knows(statusOK, statusSuccess)
		c := quick(t, a)
		c.ReceiptsAlsoFrom(func(context.Context, hedera.TransactionID) (*Receipt, error) {
			t.Error("the source was asked")
			return nil, nil
		})
		if receipt, err := pendingAt(c, 3, time.Second).Receipt(t.Context()); err != nil || receipt.Status != statusSuccess {
			t.Errorf("Receipt = %+v, %v", receipt, err)
		}
	})
}
