package consensus

import (
	"context"
	"errors"
	"testing"
	"time"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

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
