package lock_test

import (
	"context"
	"testing"
)

func BenchmarkLocalUncontended(b *testing.B) {
	svc := newLocal(b, nil)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		ticket, err := svc.Enter(alice, 1)
		if err != nil {
			b.Fatal(err)
		}
		lease, err := ticket.Wait(ctx)
		if err != nil {
			b.Fatal(err)
		}
		lease.Release()
	}
}
