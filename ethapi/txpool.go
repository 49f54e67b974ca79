package ethapi

import (
	"context"
	"fmt"
	"strconv"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/eth"
	"lockstep/internal/relay/pending"
	"lockstep/rpc"
)

// poolMethods are the rows of the txpool namespace.
func (a *API) poolMethods() []rpc.Method {
	row := func(name string, handler rpc.Handler, params ...rpc.Param) rpc.Method {
		return rpc.Method{Name: name, Params: params, Handler: translated(gate(a.offersPool(), handler))}
	}
	return []rpc.Method{
		row("txpool_content", a.poolContent),
		row("txpool_contentFrom", a.poolContentFrom, rpc.Required(AddressRule())),
		row("txpool_inspect", a.poolInspect),
		row("txpool_status", a.poolStatus),
	}
}

func (a *API) offersPool() bool { return a.deps.Pool.Enabled() && a.deps.PoolAPI }

// latestNonce returns a sender's next nonce. It counts transactions that the network has executed and the mirror
// node may not show yet.
func (a *API) latestNonce(ctx context.Context, sender common.Address) (uint64, error) {
	nonce, err := a.nonce(ctx, sender)
	if err != nil {
		return nonce, err
	}
	return a.deps.Pool.Latest(ctx, sender, nonce), nil
}

// pendingNonce returns a sender's next nonce. It counts transactions that are on their way.
func (a *API) pendingNonce(ctx context.Context, sender common.Address) (uint64, error) {
	nonce, err := a.nonce(ctx, sender)
	if err != nil {
		return nonce, err
	}
	return a.deps.Pool.Next(ctx, sender, nonce), nil
}

// pendingByHash is a transaction that is on its way, as clients of Ethereum expect it,
// or nil.
func (a *API) pendingByHash(ctx context.Context, hash common.Hash) any {
	if a.deps.Profile != rpc.ProfileEthereum {
		return nil
	}
	found, ok := a.deps.Pool.Find(ctx, hash)
	if !ok || found.Fields == nil {
		return nil
	}
	return pendingTransaction(found.From, found.Fields)
}

// byNonce is a listing of one sender's transactions, by decimal nonce.
type byNonce[T any] map[string]T

// listing is pending transactions and those that wait for another, by sender.
type listing[T any] struct {
	Pending map[string]byNonce[T] `json:"pending"`
	Queued  map[string]byNonce[T] `json:"queued"`
}

// poolContent is txpool_content.
func (a *API) poolContent(ctx context.Context, _ *rpc.Params) (any, error) {
	return listPool(ctx, a, nil, a.poolTransaction), nil
}

// poolContentFrom is txpool_contentFrom.
func (a *API) poolContentFrom(ctx context.Context, p *rpc.Params) (any, error) {
	sender := addressOf(p.At(0))
	all := listPool(ctx, a, &sender, a.poolTransaction)
	pick := func(of map[string]byNonce[any]) byNonce[any] {
		if one := of[sender.Hex()]; one != nil {
			return one
		}
		return byNonce[any]{}
	}
	return struct {
		Pending byNonce[any] `json:"pending"`
		Queued  byNonce[any] `json:"queued"`
	}{pick(all.Pending), pick(all.Queued)}, nil
}

// poolInspect is txpool_inspect: each transaction in a line for people.
func (a *API) poolInspect(ctx context.Context, _ *rpc.Params) (any, error) {
	return listPool(ctx, a, nil, func(t pending.Transaction) string {
		to := "contract creation"
		if t.Fields.To() != nil {
			to = t.Fields.To().Hex()
		}
		return fmt.Sprintf("%s: %v wei + %v gas × %v wei", to, t.Fields.Value(), t.Fields.Gas(), t.Fields.GasPrice())
	}), nil
}

// poolStatus is txpool_status.
func (a *API) poolStatus(ctx context.Context, _ *rpc.Params) (any, error) {
	pending, queued := a.deps.Pool.Count(ctx), 0
	if a.deps.Profile == rpc.ProfileEthereum {
		for _, waits := range waiting(a.deps.Pool.Pending(ctx, nil)) {
			if waits {
				queued++
			}
		}
	}
	return struct {
		Pending hexutil.Uint `json:"pending"`
		Queued  hexutil.Uint `json:"queued"`
	}{hexutil.Uint(max(0, pending-queued)), hexutil.Uint(queued)}, nil
}

// listPool lists every transaction on its way. In Ethereum a transaction that waits for a missing one counts as
// queued; clients of Hedera expect it among the pending ones. Of several with one nonce it shows the last one.
func listPool[T any](ctx context.Context, a *API, of *common.Address, say func(pending.Transaction) T) listing[T] {
	out := listing[T]{map[string]byNonce[T]{}, map[string]byNonce[T]{}}
	found := a.deps.Pool.Pending(ctx, of)
	waits := waiting(found)
	for i, t := range found {
		where := out.Pending
		if waits[i] && a.deps.Profile == rpc.ProfileEthereum {
			where = out.Queued
		}
		key := t.From.Hex()
		if where[key] == nil {
			where[key] = byNonce[T]{}
		}
		where[key][strconv.FormatUint(t.Fields.Nonce(), 10)] = say(t)
	}
	return out
}

// waiting tells which of some transactions, by sender and nonce, come after a gap.
func waiting(all []pending.Transaction) []bool {
	waits := make([]bool, len(all))
	for i := 1; i < len(all); i++ {
		if all[i].From == all[i-1].From {
			waits[i] = waits[i-1] || all[i].Fields.Nonce() > all[i-1].Fields.Nonce()+1
		}
	}
	return waits
}

// poolTransaction is a pending transaction as clients see it. Clients of Hedera expect a block hash of zeros, and
// checksums in addresses.
func (a *API) poolTransaction(t pending.Transaction) any {
	shown := pendingTransaction(t.From, t.Fields)
	if a.deps.Profile == rpc.ProfileEthereum {
		return shown
	}
	shown.BlockHash = new(common.Hash)
	return struct {
		*eth.Transaction
		From common.AddressEIP55  `json:"from"`
		To   *common.AddressEIP55 `json:"to"`
	}{shown, common.AddressEIP55(t.From), (*common.AddressEIP55)(shown.To)}
}
