package submit_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"lockstep/consensus"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/relay/lifecycle"
)

// diary writes down what a pool and a trace are told.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func newDiary() *diary { return &diary{} }

func (d *diary) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) Add(*eth.Tx)      { d.write("pool: add") }
func (d *diary) Accepted(*eth.Tx) { d.write("pool: accepted") }

func (d *diary) Alone(*eth.Tx) bool { return true }
func (d *diary) Next(_ context.Context, _ common.Address, confirmed uint64) uint64 {
	return confirmed
}
func (d *diary) Follows(context.Context, *eth.Tx, uint64) bool         { return true }
func (d *diary) Proven(common.Address) uint64                          { return 0 }
func (d *diary) Latest(context.Context, common.Address, uint64) uint64 { return 0 }
func (d *diary) Done(_ *eth.Tx, spent, perhaps bool) {
	switch {
	case spent:
		d.write("pool: done, spent")
	case perhaps:
		d.write("pool: done, perhaps")
	default:
		d.write("pool: done")
	}
}

func (d *diary) Record(_ common.Hash, step lifecycle.Step) {
	line := step.Name
	if step.Status != "" {
		line += " " + step.Status
	}
	d.write(line)
}

// Every outcome is told to the pool and the trace, once, and in order.
func TestPoolAndTraceAreTold(t *testing.T) {
	status := func(s hedera.Status) func(*network) {
		return func(n *network) { n.verdict = func(uint64) (hedera.Status, error) { return s, nil } }
	}
	receipt := func(err error) func(*network) {
		return func(n *network) { n.verdict = func(uint64) (hedera.Status, error) { return 0, err } }
	}
	before := func(err error) func(*network) {
		return func(n *network) {
			n.before = func(uint64, consensus.Submission) (bool, error) { return false, err }
		}
	}
	begin := []string{"received", "queued", "pool: add"}
	sent := slices.Clip(append(slices.Clone(begin), "submitted"))
	taken := slices.Clip(append(sent, "accepted", "pool: accepted"))
	for name, test := range map[string]struct {
		fault func(*network)
		want  []string
	}{
		"executed":       {nil, append(taken, "consensus SUCCESS", "pool: done, spent")},
		"reverted":       {status(hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED), append(taken, "consensus CONTRACT_REVERT_EXECUTED", "pool: done, spent")},
		"perhaps run":    {status(hapi.ResponseCodeEnum_INVALID_CONTRACT_ID), append(taken, "consensus INVALID_CONTRACT_ID", "pool: done, perhaps")},
		"wrong nonce":    {status(hapi.ResponseCodeEnum_WRONG_NONCE), append(taken, "rejected WRONG_NONCE", "pool: done")},
		"dropped":        {receipt(consensus.ErrReceiptNotFound), append(taken, "rejected", "pool: done")},
		"no verdict":     {receipt(errors.New("no route to host")), append(taken, "unknown", "pool: done, perhaps")},
		"refused":        {before(&consensus.StatusError{Status: hapi.ResponseCodeEnum_BUSY, Node: hedera.Entity(3)}), append(sent, "rejected BUSY", "pool: done")},
		"not sent":       {before(&consensus.NotSentError{Err: errors.New("no node")}), append(sent, "rejected", "pool: done")},
		"precheck fails": {func(n *network) { n.balance = 1 }, append(begin, "rejected", "pool: done")},
	} {
		bubble(t, name, func(t *testing.T) {
			n, d := newNetwork(), newDiary()
			if test.fault != nil {
				test.fault(n)
			}
			s := newSubmitter(t, n, func(o *options) { o.pool, o.trace = d, d })
			err := s.Submit(t.Context(), transfer(t, newKey(t), 0)).Err
			if diff := cmp.Diff(test.want, d.lines); diff != "" {
				t.Errorf("after %v (-want +got)\n%s", err, diff)
			}
		})
	}
}

// A call that goes away before Finish leaves nothing behind.
func TestLeaveTellsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		s := newSubmitter(t, newNetwork(), func(o *options) { o.pool, o.trace = d, d })
		entry := enter(t, s, newKey(t), 0)
		entry.Leave()
		s.Drain(context.Background())
		if len(d.lines) != 0 {
			t.Errorf("told: %q", d.lines)
		}
	})
}
