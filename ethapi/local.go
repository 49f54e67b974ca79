package ethapi

import (
	"context"
	"errors"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/jsonx"
	"lockstep/internal/relay/capacity"
	"lockstep/internal/relay/evm"
	"lockstep/mirror"
	"lockstep/rpc"
)

// Package evm runs here what the mirror node can neither simulate nor show. It reads the state from the mirror
// node.

// simulation is one request's state and the block that it begins with.
type simulation struct {
	api   *API
	state *evm.State
	head  *mirror.Block   // what a call sees as its block
	at    *mirror.Block   // the state is that at its end; nil: the present state
	price hedera.Tinybar  // of gas
	ctx   context.Context // ends at the simulation's time limit
	pace  *pace
	made  map[uint64]common.Hash
}

// simulate runs f on the state at a block. The present state is read while f runs, so a new block may already
// show in it.
func (a *API) simulate(ctx context.Context, ref eth.BlockRef, f func(*simulation) (any, error)) (any, error) {
	holding := capacity.FromContext(ctx)
	place, err := a.simulations.Enter(ctx, holding, 1, false)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, a.cfg.Simulation.Timeout.Duration(), errSimulationTime)
	s := &simulation{api: a, ctx: ctx, made: make(map[uint64]common.Hash), pace: &pace{ctx: ctx, holding: holding}}
	leave := func() {
		s.pace.leave()
		cancel()
		place.Leave()
	}
	result, err := s.result(ref, f)
	if err != nil {
		defer leave()
		return nil, s.clientError(err)
	}
	s.pace.finish()
	if err := s.pace.hold(2 * s.pace.held); err != nil { // the text of the held bytes
		defer leave()
		return nil, err
	}
	return &rpc.Answer{Result: result, Encoded: leave}, nil
}

func (s *simulation) result(ref eth.BlockRef, f func(*simulation) (any, error)) (result any, err error) {
	if err := s.begin(ref); err != nil {
		return nil, err
	}
	if s.pace.permit, err = s.api.processors.Enter(s.ctx, s.pace.holding, 1, true); err != nil {
		return nil, err
	}
	return f(s)
}

// argument is a value, and the parameter that it stands in.
type argument struct {
	parameter int
	value     jsonx.Value
}

// argumentAt is a whole parameter.
func argumentAt(p *rpc.Params, parameter int) argument { return argument{parameter, p.At(parameter)} }

// simulateCall runs run with a call: the first two parameters are its transaction object and its block. Both
// kinds of overrides are applied first.
func (a *API) simulateCall(ctx context.Context, p *rpc.Params, accounts, block argument, run func(*simulation, evm.Block, evm.Message) (any, error)) (any, error) {
	ref, err := blockRef(p.At(1))
	if err != nil {
		return nil, err
	}
	args, err := readTxArgs(p.At(0))
	if err != nil {
		return nil, err
	}
	var overrides []accountOverride
	if err := a.withPermit(ctx, accounts.value, func() (err error) {
		overrides, err = readOverrides(capacity.FromContext(ctx), accounts.parameter, accounts.value)
		return err
	}); err != nil {
		return nil, err
	}
	return a.simulate(ctx, ref, func(s *simulation) (any, error) {
		env := s.block()
		if err := blockOverrides(&env, block.parameter, block.value); err != nil {
			return nil, err
		}
		if err := s.override(overrides); err != nil {
			return nil, err
		}
		message, err := s.message(&args)
		if err != nil {
			return nil, err
		}
		return run(s, env, message)
	})
}

// withPermit reads a parameter; a long one keeps a processor busy for a while, and so waits for a
// permit.
func (a *API) withPermit(ctx context.Context, parameter jsonx.Value, read func() error) error {
	const long = 32 << 10
	if len(parameter) < long {
		return read()
	}
	permit, err := a.processors.Enter(ctx, capacity.FromContext(ctx), 1, true)
	if err != nil {
		return err
	}
	defer permit.Leave()
	return read()
}

var errSimulationTime = errors.New("the simulation takes too long")

func (s *simulation) begin(ref eth.BlockRef) (err error) {
	if s.at, err = s.api.state(s.ctx, ref); err != nil {
		return err
	}
	if s.head = s.at; s.head == nil {
		if s.head, err = s.api.head(s.ctx); err != nil {
			return err
		}
	}
	fees, err := s.api.mirror.Fees(s.ctx)
	if missing, err := notFound(err); err != nil {
		return err
	} else if !missing {
		s.price = fees.EthereumTransaction
	}
	s.state = evm.NewState(s.ctx, (*chainReader)(s), s.api.cfg.Simulation.Reads)
	s.state.Pace = s.pace.frame
	return nil
}

// clientError says why a simulation was not possible.
func (s *simulation) clientError(err error) error {
	var service *evm.SystemContractError
	var reads *evm.ReadsError
	var gas *evm.GasError
	switch {
	case errors.As(err, &service):
		return eth.ErrSimulation("the system contract at " + lowerAddress(service.Address) + " runs on the network only; use eth_call without block overrides")
	case errors.Is(err, evm.ErrFunds):
		return eth.ErrSimulationFunds(evm.ErrFunds.Error())
	case errors.As(err, &reads), errors.As(err, &gas):
		return eth.ErrSimulation(err.Error())
	case errors.Is(context.Cause(s.ctx), errSimulationTime):
		return eth.ErrSimulation(errSimulationTime.Error())
	}
	return err
}

// block returns the block that a call sees.
func (s *simulation) block() evm.Block {
	return evm.Block{Number: s.head.Number, Time: uint64(s.head.From.Seconds), Random: s.head.Hash}
}

// override applies the overrides of accounts.
func (s *simulation) override(accounts []accountOverride) error {
	for _, o := range accounts {
		with := evm.Override{State: wordsOf(o.State), Diff: wordsOf(o.Diff)}
		if o.Balance != nil {
			tinybars := hedera.Tinybar(*o.Balance)
			with.Balance = &tinybars
		}
		if o.Nonce != nil {
			nonce := uint64(*o.Nonce)
			with.Nonce = &nonce
		}
		if o.Code != nil {
			with.Code = present(*o.Code)
		}
		if err := s.state.Override(o.Address, with); err != nil {
			return err
		}
	}
	return nil
}

// wordsOf returns nil if no words were given, but not for an empty list.
func wordsOf(slots []slotOverride) map[common.Hash]common.Hash {
	if slots == nil {
		return nil
	}
	words := make(map[common.Hash]common.Hash, len(slots))
	for _, slot := range slots {
		words[slot.Key] = slot.Value
	}
	return words
}

// message is the message of a transaction object. An offered price is paid, up to the network's. Without a gas
// limit the maximum of one call holds.
func (s *simulation) message(t *txArgs) (m evm.Message, err error) {
	if t.authorizations != nil {
		return m, eth.ErrSimulation("authorizationList is not supported")
	}
	m = evm.Message{To: t.to, Data: t.data, Gas: s.api.deps.MaxCallGas, GasPrice: s.price}
	if t.gas != nil && *t.gas > 0 {
		m.Gas = min(m.Gas, *t.gas)
	}
	if t.value != nil && t.value.Sign() > 0 {
		tinybars, ok := hedera.TinybarOf(t.value)
		if !ok {
			return m, eth.ErrInvalidArguments("value %v is more than there is", t.value)
		}
		m.Value = max(tinybars, 1)
	}
	switch {
	case t.from != nil:
		m.From = *t.from
	case m.Value > 0 && s.api.deps.Operator != nil:
		m.From = *s.api.deps.Operator
	}
	offered := t.price
	if offered == nil {
		offered = t.maxFee
	}
	if offered != nil && offered.Sign() > 0 {
		if tinybars, ok := hedera.TinybarOf(offered); ok {
			m.GasPrice = min(m.GasPrice, tinybars)
		}
		m.Charge = true
	}
	return m, nil
}

// receiver is the receiver of a message, or the contract that it creates.
func (s *simulation) receiver(m *evm.Message) common.Address {
	if m.To != nil {
		return *m.To
	}
	return crypto.CreateAddress(m.From, s.state.Nonce(m.From))
}

// chainReader reads the state that a simulation begins with.
type chainReader simulation

// Account implements evm.Reader.
func (c *chainReader) Account(ctx context.Context, address common.Address) (*evm.Account, error) {
	return away(c.pace, func() (*evm.Account, error) { return c.account(ctx, address) })
}

func (c *chainReader) account(ctx context.Context, address common.Address) (*evm.Account, error) {
	var account *mirror.Account
	var contract *mirror.Contract
	t, both := parallel(ctx, 2)
	t.run(func() error { return found(&account)(c.api.mirror.Account(both, address)) })
	t.run(func() error { return found(&contract)(c.contract(both, address)) })
	if err := t.wait(); err != nil {
		return nil, err
	}
	switch {
	case account == nil && contract == nil:
		return c.service(ctx, address)
	case account == nil:
		return &evm.Account{Address: contract.Address, Nonce: contractNonce(contract), Code: contract.Code}, nil
	case account.Deleted, c.at != nil && account.Created.Compare(c.at.To) > 0:
		return nil, nil
	}
	found := &evm.Account{Address: account.Address, Balance: account.Balance, Nonce: accountNonce(account)}
	switch {
	case contract != nil:
		found.Code, found.Nonce = contract.Code, contractNonce(contract)
	case account.Delegation != nil && *account.Delegation != (common.Address{}):
		found.Code = types.AddressToDelegation(*account.Delegation)
	}
	if c.at == nil {
		return found, nil
	}
	return found, c.atBlock(ctx, found, contract != nil)
}

// atBlock replaces the present balance and nonce of an account by those at the end of the block. The nonce of a
// contract is not known for the past.
func (c *chainReader) atBlock(ctx context.Context, account *evm.Account, isContract bool) (err error) {
	account.Balance, err = c.api.mirror.BalanceAt(ctx, account.Address, c.at.To)
	if missing, err := notFound(err); missing || err != nil {
		return err
	}
	if !isContract && account.Nonce > 0 {
		account.Nonce, err = c.api.nonceAt(ctx, account.Address, c.at)
	}
	return err
}

func (c *chainReader) contract(ctx context.Context, address common.Address) (contract *mirror.Contract, err error) {
	if c.at == nil {
		contract, err = c.api.mirror.Contract(ctx, address)
	} else {
		contract, err = c.api.mirror.ContractAt(ctx, address, c.at.To)
	}
	if err == nil && contract.Deleted {
		return nil, mirror.ErrNotFound
	}
	return contract, err
}

func contractNonce(contract *mirror.Contract) uint64 {
	if contract.Nonce == nil {
		return 1
	}
	return *contract.Nonce
}

// service finds a token or a schedule.
func (c *chainReader) service(ctx context.Context, address common.Address) (*evm.Account, error) {
	if _, numbered := hedera.FromLongZero(address); !numbered {
		return nil, nil
	}
	code, created, err := c.api.code(ctx, address)
	if err != nil || len(code) == 0 || c.at != nil && created.Compare(c.at.To) > 0 {
		return nil, err
	}
	return &evm.Account{Address: address, Code: code, Service: true}, nil
}

// Storage implements evm.Reader.
func (c *chainReader) Storage(ctx context.Context, address common.Address, key common.Hash) (common.Hash, error) {
	var at hedera.Timestamp
	if c.at != nil {
		at = c.at.To
	}
	return away(c.pace, func() (common.Hash, error) { return c.api.mirror.Storage(ctx, address, key, at) })
}

// BlockHash implements evm.Reader.
func (c *chainReader) BlockHash(ctx context.Context, number uint64) (common.Hash, error) {
	if hash, ok := c.made[number]; ok {
		return hash, nil
	}
	block, err := away(c.pace, func() (*mirror.Block, error) { return c.api.mirror.BlockByNumber(ctx, number) })
	if missing, err := notFound(err); missing || err != nil {
		return common.Hash{}, err
	}
	return block.Hash, nil
}

// overrideRules say what a block's overrides may be. difficulty changes nothing, for no code can read it: PREVRANDAO
// has its place.
var overrideRules = map[string]rpc.Rule{
	"number": quantityRule(16), "time": quantityRule(16), "gasLimit": quantityRule(16), "feeRecipient": AddressRule(), "prevRandao": wordRule(),
	"baseFeePerGas": quantityRule(64), "blobBaseFee": quantityRule(64), "difficulty": quantityRule(64),
}

// blockOverrides changes the block that a call sees, as a parameter says.
func blockOverrides(b *evm.Block, parameter int, v jsonx.Value) error {
	for name, value := range v.Fields() {
		if value.Null() {
			continue
		}
		rule, ok := overrideRules[name]
		if !ok {
			return eth.ErrInvalidArguments("block override %q is not supported", clip(name))
		}
		if !rule.Matches(value) {
			return eth.ErrInvalidParam(parameter, "block override %q: %s, value: %s", name, rule.Phrase, clip(value.Text()))
		}
		switch n, _ := value.Uint64(); name {
		case "number":
			b.Number = n
		case "time":
			b.Time = n
		case "gasLimit":
			b.GasLimit = &n
		case "feeRecipient":
			b.Coinbase = addressField(value)
		case "prevRandao":
			b.Random = wordOf(value)
		case "baseFeePerGas":
			b.BaseFee = value.Big()
		case "blobBaseFee":
			b.BlobBaseFee = value.Big()
		}
	}
	return nil
}
