package ethapi

import (
	"bytes"
	"context"
	"errors"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/jsonx"
	"lockstep/mirror"
	"lockstep/rpc"
)

// blockNumber is eth_blockNumber.
func (a *API) blockNumber(ctx context.Context, _ *rpc.Params) (any, error) {
	head, err := a.head(ctx)
	if err != nil {
		return nil, err
	}
	return hexutil.Uint64(head.Number), nil
}

// getBalance is eth_getBalance, in weibar; 0 if the account does not exist.
func (a *API) getBalance(ctx context.Context, p *rpc.Params) (any, error) {
	ref, err := blockRef(p.At(1))
	if err != nil {
		return nil, err
	}
	block, err := a.state(ctx, ref)
	if err != nil {
		return nil, err
	}
	balance, err := a.balance(ctx, addressOf(p.At(0)), block)
	if missing, err := notFound(err); err != nil {
		return nil, err
	} else if missing {
		return hexutil.Uint64(0), nil
	}
	return (*hexutil.Big)(balance.Weibar()), nil
}

func (a *API) balance(ctx context.Context, address common.Address, block *mirror.Block) (hedera.Tinybar, error) {
	if block != nil {
		return a.mirror.BalanceAt(ctx, address, block.To)
	}
	account, err := a.mirror.Account(ctx, address)
	switch {
	case err != nil:
		return 0, err
	case !account.BalanceKnown:
		return 0, eth.ErrBalanceUnknown(address)
	}
	return account.Balance, nil
}

// getTransactionCount is eth_getTransactionCount: the sender's next nonce.
func (a *API) getTransactionCount(ctx context.Context, p *rpc.Params) (any, error) {
	ref, err := blockRef(p.At(1))
	if err != nil {
		return nil, err
	}
	address := addressOf(p.At(0))
	block, err := a.state(ctx, ref)
	if err != nil {
		return nil, err
	}
	if block != nil {
		nonce, err := a.nonceAt(ctx, address, block)
		return hexutil.Uint64(nonce), err
	}
	next := a.nonce
	switch {
	case ref.IsPending():
		next = a.pendingNonce
	case ref.IsLatest():
		next = a.latestNonce
	}
	nonce, err := next(ctx, address)
	return hexutil.Uint64(nonce), err
}

// nonce returns an account's present next nonce.
func (a *API) nonce(ctx context.Context, address common.Address) (nonce uint64, err error) {
	account, err := a.mirror.Account(ctx, address)
	if missing, err := notFound(err); err != nil {
		return 0, err
	} else if !missing {
		nonce = accountNonce(account)
	}
	return a.mirror.NotBefore(address, nonce), nil
}

// accountNonce returns an account's nonce. An account that was never an Ethereum sender is a contract, whose
// nonce begins at 1.
func accountNonce(account *mirror.Account) uint64 {
	if account.Nonce == nil {
		return 1
	}
	return *account.Nonce
}

// nonceAt returns the next nonce that a sender had after a block: one more than that of its last transaction that
// ran until then. A transaction that used no gas did not run.
func (a *API) nonceAt(ctx context.Context, address common.Address, block *mirror.Block) (uint64, error) {
	account, err := a.mirror.Account(ctx, address)
	if missing, err := notFound(err); missing || err != nil {
		return 0, err
	}
	if account.Created.Compare(block.To) > 0 {
		return 0, nil
	}
	if account.Nonce == nil {
		return 1, nil
	}
	if *account.Nonce == 0 {
		return 0, nil
	}
	query := mirror.ResultsQuery{
		From: &account.Address, Period: mirror.Period{To: block.To}, Order: mirror.Descending, Limit: 10,
	}
	for result, err := range a.mirror.ContractResults(ctx, query) {
		switch {
		case err != nil:
			return 0, err
		case result.From != account.Address && result.From != account.ID.LongZero():
		case result.Type != nil && result.Nonce != nil && result.GasUsed > 0:
			return *result.Nonce + 1, nil
		}
	}
	return a.contractNonce(ctx, account)
}

// contractNonce is the nonce of an account that never sent anything: 0, unless it is a contract. A contract's
// nonce counts its creations, and no record of these names it as the sender, so only the present nonce is known.
func (a *API) contractNonce(ctx context.Context, account *mirror.Account) (uint64, error) {
	_, err := a.mirror.Contract(ctx, account.Address)
	if missing, err := notFound(err); missing || err != nil {
		return 0, err
	}
	return accountNonce(account), nil
}

// System contracts for tokens and schedules: the code at an address of such an entity passes every call to one of
// them.
const (
	tokenService    = 0x167
	scheduleService = 0x16b
)

// getCode is eth_getCode.
func (a *API) getCode(ctx context.Context, p *rpc.Params) (any, error) {
	ref, err := blockRef(p.At(1))
	if err != nil {
		return nil, err
	}
	address := addressOf(p.At(0))
	if address == hedera.Entity(tokenService).LongZero() || address == hedera.Entity(scheduleService).LongZero() {
		return hexutil.Bytes{0xfe}, nil
	}
	block, err := a.state(ctx, ref)
	if err != nil {
		return nil, err
	}
	code, created, err := a.code(ctx, address)
	if err != nil {
		return nil, err
	}
	if block != nil && created.Compare(block.To) > 0 {
		code = nil
	}
	return hexutil.Bytes(code), nil
}

// code returns the code that runs when an address is called, and since when it exists.
func (a *API) code(ctx context.Context, address common.Address) ([]byte, hedera.Timestamp, error) {
	contract, err := a.mirror.Contract(ctx, address)
	if err == nil {
		return contract.Code, contract.Created, nil
	}
	if !errors.Is(err, mirror.ErrNotFound) {
		return nil, hedera.Timestamp{}, err
	}
	entity, numbered := hedera.FromLongZero(address)
	var account *mirror.Account
	var token, schedule *mirror.Created
	t, ctx := parallel(ctx, 3)
	t.run(func() error { return found(&account)(a.mirror.Account(ctx, address)) })
	if numbered {
		t.run(func() error { return found(&token)(a.mirror.Token(ctx, entity)) })
		t.run(func() error { return found(&schedule)(a.mirror.Schedule(ctx, entity)) })
	}
	if err := t.wait(); err != nil {
		return nil, hedera.Timestamp{}, err
	}
	switch {
	case token != nil:
		return delegation(hedera.Entity(tokenService).LongZero()), token.At, nil
	case schedule != nil:
		return delegation(hedera.Entity(scheduleService).LongZero()), schedule.At, nil
	case account != nil && account.Delegation != nil && *account.Delegation != (common.Address{}):
		return delegation(*account.Delegation), account.Created, nil
	}
	return nil, hedera.Timestamp{}, nil
}

// found stores the result of a look-up; a missing entity is no error.
func found[T any](target **T) func(*T, error) error {
	return func(value *T, err error) error {
		missing, err := notFound(err)
		if err == nil && !missing {
			*target = value
		}
		return err
	}
}

// delegation is the code of an address that runs the code of another.
func delegation(to common.Address) []byte {
	return bytes.Join([][]byte{{0xef, 0x01, 0x00}, to[:]}, nil)
}

// getStorageAt is eth_getStorageAt.
func (a *API) getStorageAt(ctx context.Context, p *rpc.Params) (any, error) {
	ref, err := blockRef(p.At(2))
	if err != nil {
		return nil, err
	}
	var at hedera.Timestamp
	block, err := a.state(ctx, ref)
	var client *eth.Error
	switch {
	case errors.As(err, &client) && client.Code == eth.CodeUnknownBlock:
		return nil, eth.ErrNoBlockOfStorage(ref.String())
	case err != nil:
		return nil, err
	case block != nil:
		at = block.To
	}
	return a.mirror.Storage(ctx, addressOf(p.At(0)), slotKey(p.At(1)), at)
}

// slotKey reads a slot, which may be written with any number of digits.
func slotKey(v jsonx.Value) common.Hash {
	n := v.Big()
	if n == nil {
		return common.Hash{}
	}
	return common.BigToHash(n)
}
