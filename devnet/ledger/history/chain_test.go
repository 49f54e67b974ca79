package history

import (
	"testing"

	"lockstep/devnet/ledger/state"
	"lockstep/internal/hedera"
)

// With the oldest blocks go the ways to find their records.
func TestIndexesAreBounded(t *testing.T) {
	const kept = 10
	c := NewChain(kept, 1<<30)
	for i := range byte(100) {
		at := hedera.Timestamp{Seconds: int64(i)}
		r := &Record{Consensus: at, ID: hedera.TransactionID{ValidStart: at}, Hash: state.Hash48{i}, EthereumHash: [32]byte{i, 1}}
		c.Enter([]*Record{r}, 1)
		c.CloseOpen()
		c.Forget()
	}
	for name, n := range map[string]int{
		"blocks": len(c.blocks), "touched": len(c.touched), "hashes of blocks": len(c.byHash), "ids": len(c.byID),
		"hashes, of which each has two": len(c.byTx) / 2,
	} {
		if n != kept {
			t.Errorf("%s: %d are kept", name, n)
		}
	}
}

func TestConsensusLogIsBounded(t *testing.T) {
	o := NewOrder(10)
	for range 35 {
		o.Add(ConsensusEntry{})
	}
	if len(o.entries) > 20 {
		t.Errorf("%d entries", len(o.entries))
	}
	all := o.Since(0, 100)
	if all[len(all)-1].Sequence != 34 || all[0].Sequence != o.entries[0].Sequence {
		t.Errorf("from %d to %d", all[0].Sequence, all[len(all)-1].Sequence)
	}
	if got := o.Since(33, 1); len(got) != 1 || got[0].Sequence != 33 {
		t.Errorf("since 33: %v", got)
	}
	if got := o.Since(35, 1); got != nil {
		t.Errorf("since 35: %v", got)
	}
}
