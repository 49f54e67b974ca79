//go:build !race

package rpc

import (
	"context"
	"testing"
)

// What a call may allocate between its bytes and the bytes of its answer. A pool may be emptied meanwhile, so there is
// some room. The race detector allocates on its own.
func TestAllocationBudgets(t *testing.T) {
	for _, c := range []struct {
		name, body string
		budget     float64
	}{
		{"eth_chainId", chainIDCall, 3},
		{"a method with a parameter", sha3Call, 5},
		{"a method that may wait", call1("eth_accounts"), 9},
		{"a batch of 100", chainIDBatch(100), 5},
	} {
		d, body := testDispatcher(t, testConfig(), Options{}), []byte(c.body)
		got := testing.AllocsPerRun(1000, func() {
			req := &requestContext{Context: context.Background(), request: Request{ID: newRequestID(), IP: "127.0.0.1"}}
			ex := d.begin(req, TransportHTTP, &req.request, body)
			ex.finish(req)
			ex.observeHTTP(req, ex.httpStatus())
			ex.release()
		})
		if got > c.budget {
			t.Errorf("%s: %v allocations, the budget is %v", c.name, got, c.budget)
		}
	}
}
