package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger/history"
	"lockstep/e2e/harness"
	"lockstep/internal/hapi"
	"lockstep/internal/must"
)

// TestMain lets the binary of the tests be what the suite starts: the network, above all.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		main()
		return
	}
	if flag.Parse(); testing.Short() {
		os.Exit(m.Run())
	}
	os.Exit(harness.Main(m, filepath.Join("..", "..")))
}

// TestFailuresCostNoTransactions puts real relays through short failures, with less of everything than the row
// of the suite, and judges as it does.
func TestFailuresCostNoTransactions(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	for _, h := range shortFailures() {
		if !h.tested {
			continue
		}
		t.Run(h.id, func(t *testing.T) {
			t.Parallel()
			l := &lab{progress: t.Output()}
			must.Do(t, l.open(harness.Program(t)))
			t.Cleanup(func() { _ = os.RemoveAll(l.dir) })
			var v verdict
			must.Do(t, l.play(t.Context(), new(table), 1, func(s *scenario) { v = s.suffer(h.shortened()) }))
			t.Logf("%d sent, %d executed, %d refused and paid for, in %v", v.sent, v.executed, v.paid, v.took)
			if v.share() < 99 || v.twice+v.disorder+v.toldFalse+v.broken > 0 {
				t.Errorf("executed %.1f %%, twice %d, wrong order %d, told false %d, hashes broken %d; answers %v",
					v.share(), v.twice, v.disorder, v.toldFalse, v.broken, v.answers)
			}
			if h.id == "vanished-two-open" && v.paid > 1 {
				t.Errorf("with two without a verdict at most, a hole costs %d rejections", v.paid)
			}
		})
	}
}

// The judge sees each thing that must not be.
func TestJudge(t *testing.T) {
	hash := func(n byte) common.Hash { return common.Hash{n} }
	ran := func(nonce uint64) history.ConsensusEntry {
		return history.ConsensusEntry{Nonce: nonce, Hash: hash(byte(nonce)), Status: hapi.ResponseCodeEnum_SUCCESS}
	}
	told := func(nonce byte, answer string) *sending {
		return &sending{nonce: uint64(nonce), hash: hash(nonce), answer: answer, refuse: answer == "full"}
	}
	for name, test := range map[string]struct {
		log  []history.ConsensusEntry
		sent []*sending
		want verdict
	}{
		"all is well":         {[]history.ConsensusEntry{ran(0), ran(1)}, []*sending{told(0, gotHash), told(1, gotHash)}, verdict{sent: 2, executed: 2}},
		"twice":               {[]history.ConsensusEntry{ran(0), ran(0)}, []*sending{told(0, gotHash)}, verdict{sent: 1, executed: 1, twice: 1, disorder: 1}},
		"wrong order":         {[]history.ConsensusEntry{ran(1), ran(0)}, []*sending{told(0, gotHash), told(1, gotHash)}, verdict{sent: 2, executed: 2, disorder: 1}},
		"a hash for nothing":  {nil, []*sending{told(0, gotHash)}, verdict{sent: 1, broken: 1}},
		"told to have failed": {[]history.ConsensusEntry{ran(0)}, []*sending{told(0, "no")}, verdict{sent: 1, executed: 1, toldFalse: 1}},
		"nothing is known":    {[]history.ConsensusEntry{ran(0)}, []*sending{told(0, "its outcome is not known yet")}, verdict{sent: 1, executed: 1}},
		"paid for":            {[]history.ConsensusEntry{{Status: hapi.ResponseCodeEnum_WRONG_NONCE}}, []*sending{told(0, "no")}, verdict{sent: 1, paid: 1}},
		"gone":                {[]history.ConsensusEntry{ran(0)}, []*sending{told(0, gotHash), {nonce: 1, hash: hash(1), answer: nothing, gone: true}}, verdict{sent: 2, executed: 1, refused: 1}},
		"no room, and behind": {nil, []*sending{told(0, "full"), told(1, "too high")}, verdict{sent: 2, refused: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			got := judge(test.log, test.sent)
			got.answers = nil
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", test.want) {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}
