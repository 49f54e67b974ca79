package ledger

import (
	"encoding/binary"
	"maps"

	"lockstep/devnet/ledger/accounts"
	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/files"
	"lockstep/devnet/ledger/schedules"
	"lockstep/devnet/ledger/tokens"
	"lockstep/devnet/ledger/topics"
	"lockstep/devnet/ledger/transfers"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// newServices lists the kinds of transactions that this network handles.
func newServices(net *core.Network, e *evm.Engine) core.Services {
	all := core.Services{
		"atomic_batch": core.ServiceOf(atomicBatch, func(body *hapi.AtomicBatchTransactionBody) hedera.Status { return pureBatch(net, body) }),
		"util_prng":    core.ServiceOf(utilPrng, nil),
	}
	for _, some := range []core.Services{
		accounts.Services(), tokens.Services(), transfers.Services(), topics.Services(), files.Services(), schedules.Services(net), e.Services(),
	} {
		maps.Copy(all, some)
	}
	return all
}

// utilPrng draws a number, or 48 bytes where there is no range for it.
func utilPrng(h *core.Handling, body *hapi.UtilPrngTransactionBody) hedera.Status {
	if body.GetRange() < 0 {
		return hapi.ResponseCodeEnum_INVALID_PRNG_RANGE
	}
	seed := h.Record.Seed
	if body.GetRange() == 0 {
		h.Record.PRNG = seed[:]
		return okay
	}
	n := int32(uint64(binary.BigEndian.Uint32(seed[:4])) * uint64(body.GetRange()) >> 32)
	h.Did().Number = &n
	return okay
}
