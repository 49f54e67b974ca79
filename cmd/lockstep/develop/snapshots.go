package develop

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/devnet/ledger"
	"lockstep/internal/eth"
	"lockstep/rpc"
)

func (d *Developer) snapshotMethods() []rpc.Method {
	return concat(
		named(d.snapshot, "evm_snapshot", "anvil_snapshot", "hardhat_snapshot"),
		named(d.revert, "evm_revert", "anvil_revert", "hardhat_revert"),
		named(d.reset(true), "hardhat_reset"), named(d.reset(nil), "anvil_reset"),
		named(d.dumpState, "anvil_dumpState", "hardhat_dumpState"),
		named(d.loadState, "anvil_loadState", "hardhat_loadState"),
	)
}

// snapshot is evm_snapshot: a moment of everything, HAPI's services and the mirror included.
func (d *Developer) snapshot(ctx context.Context, _ *rpc.Params) (any, error) {
	taken := d.ledger.Snapshot()
	d.mu.Lock()
	d.last++
	id := d.last
	d.snapshots = append(d.snapshots, numbered{id, taken})
	if len(d.snapshots) > maxSnapshots {
		d.snapshots = slices.Clone(d.snapshots[1:])
	}
	d.mu.Unlock()
	d.changed(ctx) // an open block was closed
	return hexutil.Uint64(id), nil
}

// numbered is a snapshot under the number by which tools know it. Numbers are not used again.
type numbered struct {
	id uint64
	*ledger.Snapshot
}

// revert is evm_revert. The snapshot and all later ones are spent.
func (d *Developer) revert(ctx context.Context, p *rpc.Params) (any, error) {
	id, err := count(p, 0)
	if err != nil {
		return nil, err
	}
	if !d.goBack(id) {
		return false, nil
	}
	// The relay has forgotten what is gone before this is answered.
	if err := d.relay.Changed(ctx); err != nil {
		return nil, eth.ErrInternal("the chain went back, and the mirror node does not answer: %s", err)
	}
	return true, nil
}

func (d *Developer) goBack(id uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	i, found := slices.BinarySearchFunc(d.snapshots, id, func(s numbered, id uint64) int { return cmp.Compare(s.id, id) })
	if !found {
		return false
	}
	to := d.snapshots[i].Snapshot
	d.snapshots = slices.Delete(d.snapshots, i, len(d.snapshots))
	return d.ledger.Revert(to)
}

// reset is hardhat_reset: the chain begins again.
func (d *Developer) reset(result any) rpc.Handler {
	return func(ctx context.Context, p *rpc.Params) (any, error) {
		for name := range p.At(0).Fields() {
			if name == "forking" {
				return nil, eth.ErrInvalidParam(0, "a chain is a fork from its start, with --fork-url; a request cannot choose another network")
			}
		}
		if err := d.ledger.Reset(); err != nil {
			return nil, err
		}
		d.forget(ctx)
		return result, nil
	}
}

// forget drops what was said of the chain before.
func (d *Developer) forget(ctx context.Context) {
	d.mu.Lock()
	d.snapshots = nil
	clear(d.impersonated)
	d.anybody = false
	d.mu.Unlock()
	d.changed(ctx)
}

// Bounds of state that goes through JSON-RPC; --state has none.
const (
	maxDump   = 24 << 20  // bytes
	maxLoaded = 256 << 20 // bytes, unpacked
)

// dumpState is anvil_dumpState: the whole state, in the form of --state.
func (d *Developer) dumpState(ctx context.Context, _ *rpc.Params) (any, error) {
	state, err := d.ledger.Dump(maxDump)
	d.changed(ctx) // an open block was closed
	if err != nil {
		return nil, eth.ErrInvalidArguments("the state cannot be dumped: %s", err)
	}
	return hexutil.Bytes(state), nil
}

// loadState is anvil_loadState: the chain is the one that was dumped.
func (d *Developer) loadState(ctx context.Context, p *rpc.Params) (any, error) {
	state := p.At(0).Bytes()
	if state == nil {
		return nil, eth.ErrInvalidParam(0, "want what anvil_dumpState answered")
	}
	if err := d.ledger.Load(bytes.NewReader(state), maxLoaded); err != nil {
		return nil, eth.ErrInvalidParam(0, "the state cannot be loaded: %s", err)
	}
	d.forget(ctx)
	return true, nil
}
