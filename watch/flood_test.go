package watch

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/ledger"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/internal/secret"
	"lockstep/watch/decode"
	"lockstep/watch/source"
)

// flood is a chain of ten events in each block, which costs nothing to read.
type flood struct {
	chainReader
	contract common.Address
	event    common.Hash
}

func (f *flood) LogsOfRange(_ context.Context, from, to uint64, _ source.Query) (logs []source.Log, last source.Block, err error) {
	for n := from; n <= to; n++ {
		for i := range uint64(10) {
			logs = append(logs, source.Log{
				Address: f.contract, Topics: []common.Hash{f.event, common.BytesToHash(f.contract[:])}, Data: common.LeftPadBytes([]byte{byte(n >> 8), byte(n), byte(i)}, 32),
				BlockNumber: n, BlockHash: common.BigToHash(common.Big1), TxHash: common.Hash{byte(i)}, Index: 10*n + i, Time: 1 + n,
			})
		}
	}
	return logs, source.Block{Number: to, Hash: common.BigToHash(common.Big1)}, nil
}

// BenchmarkCatchUp decodes events of a long past and writes them to a file of SQLite, with and without tables of their own.
func BenchmarkCatchUp(b *testing.B) {
	for _, tables := range []bool{false, true} {
		b.Run(fmt.Sprintf("tables=%v", tables), func(b *testing.B) {
			db := ledgertest.Open(b)
			released := must.Get(decode.Parse("Released(address indexed to, uint256 amount)"))(b)
			contract := common.HexToAddress("0x5FbDB2315678afecb367f032d93F642f64180aa3")
			plan := Plan{
				Chains:  []Chain{{ID: 5, URLs: []secret.String{"http://127.0.0.1:1"}, MaxSpan: 1000}},
				Watches: []Watch{{Name: "w", Chain: 5, Addresses: []common.Address{contract}, Events: []*decode.Signature{released}, Sinks: []string{"book"}, Tables: tables}},
			}
			s, err := New(Config{Plan: plan, Instance: "a"}, Deps{DB: db, Log: slog.New(slog.DiscardHandler), Sinks: func(string) (Sink, error) { return nil, nil }})
			if err == nil {
				err = s.prepare(b.Context())
			}
			if err != nil {
				b.Fatal(err)
			}
			s.fleet.reign = "a/1"
			w := s.worker(plan.Chains[0])
			w.source = &flood{w.source, contract, released.Selector}
			must.Do(b, db.Write(b.Context(), func(tx *ledger.Tx) error {
				if _, err := tx.Exec(b.Context(), "UPDATE cursors SET owner = $1", s.fleet.owner()); err != nil {
					return err
				}
				_, err := tx.Exec(b.Context(), "INSERT INTO watch_chains (chain, genesis, head, safe, says, fork, best, best_at, pace, owner) VALUES (5, '', 1000000, 1000000, 1, 0, 1000000, 0, 0, '')")
				return err
			}))
			must.Do(b, w.load(b.Context()))
			defer w.dropAhead()
			events := 0
			for b.Loop() {
				before := w.lowest()
				must.Get(w.step(b.Context()))(b)
				events += int(10 * (w.lowest() - before))
			}
			rows := events
			if tables {
				rows, err = ledgertest.One[int](b, db, "SELECT COUNT(*) FROM event_w_released")
			}
			if err != nil || rows != events {
				b.Errorf("%d rows of %d events, %v", rows, events, err)
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
