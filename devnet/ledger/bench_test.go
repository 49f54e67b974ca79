package ledger

import (
	"testing"

	"lockstep/devnet/ledger/core"
	"lockstep/internal/hedera"
)

// BenchmarkTransfer is a value transfer from the moment consensus has it: execution,
// commit, block. The second case is in the steady state of a long run, where every
// new block makes an old one go.
func BenchmarkTransfer(b *testing.B) {
	for name, history := range map[string]int{"history growing": 1 << 20, "history full": 10_000} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b, Config{History: history})
			from, to, relayer := dev(b, 0), dev(b, 1), dev(b, 9)
			subs := make([]*core.Submission, b.N)
			for i := range subs {
				body := ethereumBody(b, from, dynamic(uint64(i), &to.address, 5, 100_000, nil), 0)
				subs[i] = r.submission(hedera.TransactionID{
					Payer: relayer.id, ValidStart: hedera.Timestamp{Seconds: int64(i)},
				}, body)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for _, sub := range subs {
				r.want(r.Handle(sub), okay)
			}
		})
	}
}
