package evm

import (
	"context"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"

	"lockstep/internal/hedera"
)

// Account is what lives at an address.
type Account struct {
	Address common.Address // by which the EVM knows it: its alias if it has one
	Balance hedera.Tinybar
	Nonce   uint64
	Code    []byte
	// Service says that it is a token or a schedule: its code is a system contract.
	Service bool
}

// Reader tells what a state holds before anything runs on it. It is asked once for
// each thing, by one goroutine at a time.
type Reader interface {
	// Account returns what lives at an address, which may be its alias or its
	// long-zero address; nil if nothing does.
	Account(ctx context.Context, address common.Address) (*Account, error)
	// Storage returns a word of a contract's storage.
	Storage(ctx context.Context, address common.Address, key common.Hash) (common.Hash, error)
	// BlockHash returns the hash of a block, or the zero hash if there is none.
	BlockHash(ctx context.Context, number uint64) (common.Hash, error)
}

// State is accounts and their storage. It is for one goroutine.
type State struct {
	ctx      context.Context
	reader   Reader
	reads    int // how many more are allowed
	most     int
	accounts map[common.Address]*Account // by the address asked for; nil: nothing there
	mocked   map[common.Address]bool     // whose code is overridden
	hashes   map[uint64]common.Hash      // of blocks
	db       *state.StateDB
	runs     uint64

	// Pace, if not nil, is called where a frame begins, with the gas that the frame has and
	// its depth. An error ends the run.
	Pace func(depth int, gas uint64) error

	err  error  // the first failure of a look-up, after which the state is of no use
	stop func() // ends the run that is under way
}

// NewState returns the state that a reader tells of. It lives as long as the context,
// which is that of one request, and makes a maximum of maxReads look-ups.
func NewState(ctx context.Context, reader Reader, maxReads int) *State {
	s := &State{
		ctx: ctx, reader: reader, reads: maxReads, most: maxReads, stop: func() {},
		accounts: make(map[common.Address]*Account), mocked: make(map[common.Address]bool),
		hashes: make(map[uint64]common.Hash),
	}
	// Without a prefetcher and without a commit, tries are never asked for.
	db, err := state.NewWithReader(types.EmptyRootHash, tryless{}, backing{s})
	if err != nil {
		panic(err) // it has no reason to fail
	}
	s.db = db
	return s
}

// tryless is a database that only says which kind it is.
type tryless struct{ state.Database }

func (tryless) Type() state.DatabaseType { return state.TypeMPT }

// ReadsError says that a message reads more of the state than one request may.
type ReadsError struct{ Limit int }

func (e *ReadsError) Error() string {
	return fmt.Sprintf("evm: more than %d accounts and words of storage are needed", e.Limit)
}

// Fail ends the run that is under way; the first failure counts.
func (s *State) Fail(err error) {
	if s.err == nil {
		s.err = err
	}
	s.stop()
}

// read counts a look-up; it tells whether it may be made.
func (s *State) read() bool {
	switch {
	case s.err != nil:
	case s.ctx.Err() != nil:
		s.Fail(s.ctx.Err())
	case s.reads <= 0:
		s.Fail(&ReadsError{Limit: s.most})
	default:
		s.reads--
		return true
	}
	return false
}

// Numbers up to the first belong to the system, numbers up to the second have no alias
// and no code.
const (
	lastSystemNumber   = 750
	lastReservedNumber = 1000
)

// account returns what was at an address before anything ran; nil for nothing. What
// belongs to the system has neither balance nor code for the EVM.
func (s *State) account(address common.Address) *Account {
	if id, numbered := hedera.FromLongZero(address); numbered && id.Num <= lastSystemNumber {
		return nil
	}
	if account, known := s.accounts[address]; known {
		return account
	}
	if !s.read() {
		return nil
	}
	account, err := s.reader.Account(s.ctx, address)
	if err != nil {
		s.Fail(err)
		return nil
	}
	s.accounts[address] = account
	if account != nil {
		s.accounts[account.Address] = account
	}
	return account
}

// canonical returns the address that the EVM knows an account by.
func (s *State) canonical(address common.Address) common.Address {
	if id, numbered := hedera.FromLongZero(address); !numbered || id.Num <= lastReservedNumber {
		return address
	}
	if account := s.account(address); account != nil {
		return account.Address
	}
	return address
}

// backing is the Reader as go-ethereum wants it.
type backing struct{ s *State }

// Account implements state.Reader.
func (b backing) Account(address common.Address) (*types.StateAccount, error) {
	account := b.s.account(address)
	if account == nil {
		return nil, b.s.err
	}
	return &types.StateAccount{
		Nonce: account.Nonce, Balance: uint256.NewInt(uint64(max(account.Balance, 0))),
		Root: types.EmptyRootHash, CodeHash: codeHash(account.Code),
	}, nil
}

func codeHash(code []byte) []byte {
	if len(code) == 0 {
		return types.EmptyCodeHash.Bytes()
	}
	return crypto.Keccak256(code)
}

// Storage implements state.Reader. Only contracts have storage.
func (b backing) Storage(address common.Address, key common.Hash) (common.Hash, error) {
	account := b.s.account(address)
	if account == nil || len(account.Code) == 0 || account.Service || !b.s.read() {
		return common.Hash{}, b.s.err
	}
	word, err := b.s.reader.Storage(b.s.ctx, address, key)
	if err != nil {
		b.s.Fail(err)
	}
	return word, err
}

// Has implements state.Reader.
func (b backing) Has(address common.Address, hash common.Hash) bool {
	return b.Code(address, hash) != nil
}

// Code implements state.Reader.
func (b backing) Code(address common.Address, _ common.Hash) []byte {
	if account := b.s.account(address); account != nil {
		return account.Code
	}
	return nil
}

// CodeSize implements state.Reader.
func (b backing) CodeSize(address common.Address, hash common.Hash) int {
	return len(b.Code(address, hash))
}

// Override is what to assume of an account; what is nil stays.
type Override struct {
	Balance *hedera.Tinybar
	Nonce   *uint64
	Code    []byte                      // nil: as it is; empty: none
	State   map[common.Hash]common.Hash // all of its storage
	Diff    map[common.Hash]common.Hash // these words of it
}

// Override changes an account between messages.
func (s *State) Override(address common.Address, o Override) error {
	address = s.canonical(address)
	if o.Nonce != nil {
		s.db.SetNonce(address, *o.Nonce, tracing.NonceChangeUnspecified)
	}
	if o.Code != nil {
		s.db.SetCode(address, o.Code, tracing.CodeChangeUnspecified)
		s.mocked[address] = true
	}
	if o.Balance != nil {
		s.db.SetBalance(address, uint256.NewInt(uint64(max(*o.Balance, 0))), tracing.BalanceChangeUnspecified)
	}
	if o.State != nil {
		s.db.SetStorage(address, o.State)
	}
	for key, value := range o.Diff {
		s.db.SetState(address, key, value)
	}
	s.db.Finalise(rules())
	return s.err
}

// Balance returns what an account has now.
func (s *State) Balance(address common.Address) hedera.Tinybar {
	return hedera.Tinybar(s.db.GetBalance(s.canonical(address)).Uint64())
}

// Nonce returns an account's next nonce.
func (s *State) Nonce(address common.Address) uint64 { return s.db.GetNonce(s.canonical(address)) }

// Code returns what runs when an address is called.
func (s *State) Code(address common.Address) []byte { return s.db.GetCode(s.canonical(address)) }

// Exists tells whether there is something at an address.
func (s *State) Exists(address common.Address) bool { return s.db.Exist(s.canonical(address)) }

// Slot returns a word of storage.
func (s *State) Slot(address common.Address, key common.Hash) common.Hash {
	return s.db.GetState(s.canonical(address), key)
}

// Err returns the failure after which nothing that the State tells is true.
func (s *State) Err() error {
	if s.err != nil {
		return s.err
	}
	return s.db.Error()
}
