package rpc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// orderMethod is a two-phase method that hands out turns like a lock does: its
// second phase waits until all that entered before it have finished.
type orderMethod struct {
	mu      sync.Mutex
	entered []uint64
	tail    chan struct{} // closed when the last one to enter has finished
}

func newOrderMethod() *orderMethod {
	o := &orderMethod{tail: make(chan struct{})}
	close(o.tail)
	return o
}

func (o *orderMethod) method() Method {
	return Method{Name: "eth_order", Params: []Param{Required(Text())}, Enter: o.enter}
}

func (o *orderMethod) enter(_ context.Context, p *Params) (Finish, error) {
	n, _ := p.At(0).Uint64()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.entered = append(o.entered, n)
	before, mine := o.tail, make(chan struct{})
	o.tail = mine
	return FinishFunc(func(ctx context.Context) (any, error) {
		defer close(mine)
		select {
		case <-before:
			return n, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}), nil
}

func (o *orderMethod) call(n int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"eth_order","params":["0x%x"]}`, n, n)
}

func (o *orderMethod) check(t *testing.T, n int) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.entered) != n || !slices.IsSorted(o.entered) {
		t.Errorf("entered: got %v, want 0 to %d in order", o.entered, n-1)
	}
}

// TestBatchOrder: items enter in array order, and every one of them makes
// progress however few others may run at the same time.
func TestBatchOrder(t *testing.T) {
	for _, concurrency := range []int{1, 100} {
		const n = 100
		c := testConfig()
		c.Batch.Concurrency = concurrency
		o := newOrderMethod()
		url := serveHTTP(t, testDispatcher(t, c, Options{}, o.method()), HTTPOptions{})
		var items, want []string
		for i := range n {
			items = append(items, o.call(i))
			want = append(want, fmt.Sprintf(`{"result":%d,"jsonrpc":"2.0","id":%d}`, i, i))
		}
		_, answer := post(t, url, "["+strings.Join(items, ",")+"]")
		compareJSON(t, "batch", answer, "["+strings.Join(want, ",")+"]")
		o.check(t, n)
	}
}
