package node

import (
	"testing"

	"lockstep/internal/hapi"
)

// BenchmarkSubmit is the whole way of a value transfer through a node: envelope,
// payer's signature, sender recovery, execution, block.
func BenchmarkSubmit(b *testing.B) {
	n := newNetwork(b, Config{}).Nodes()[0]
	o, p, to := &order{t: b}, dev(b, 0), dev(b, 1)
	txs := make([]*hapi.Transaction, b.N)
	for i := range txs {
		txs[i] = o.sign(o.body(p, ethereum(b, p, uint64(i), &to.at, 21_000)), p.key)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for _, tx := range txs {
		if got := submit(b, n, tx); got != hapi.ResponseCodeEnum_OK {
			b.Fatal(got)
		}
	}
}
