package mirror

import (
	"context"
	stdjson "encoding/json"
	"fmt"
	"math/big"
	"strconv"

	"github.com/ethereum/go-ethereum/common"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"lockstep/internal/hedera"
	"lockstep/mirror/fetch"
)

// Contract is a deployed contract.
type Contract struct {
	ID      hedera.ID        `json:"contract_id"`
	Address common.Address   `json:"evm_address"`
	Created hedera.Timestamp `json:"created_timestamp"`
	Deleted bool             `json:"deleted"`
	Nonce   *uint64          `json:"nonce"`
	Code    []byte           `json:"runtime_bytecode"` // runtime code
}

// Contract returns the contract at an address as it is now, or ErrNotFound.
func (c *Client) Contract(ctx context.Context, address common.Address) (*Contract, error) {
	return c.contract(ctx, address, "")
}

func (c *Client) contract(ctx context.Context, address common.Address, at string) (*Contract, error) {
	return getOf(ctx, c, "contracts/{id}", "contracts/"+lowerHex(address)+at, func(k *Contract) bool { return has(k.ID, k.Address, address) })
}

// slot is an entry of a contract's storage.
type slot struct {
	Key   common.Hash `json:"slot"`
	Value common.Hash `json:"value"`
}

// Storage returns a word of a contract's storage at a moment; the zero time is now. A word that was never written
// is zero. Another word says nothing of it.
func (c *Client) Storage(ctx context.Context, address common.Address, key common.Hash, at hedera.Timestamp) (common.Hash, error) {
	var q query
	if !at.IsZero() {
		q.add("timestamp", at.String())
	}
	q.add("slot", key.Hex())
	q.add("limit", "1")
	q.add("order", string(Descending))
	l := list[slot]{
		label: "contracts/{id}/state", path: "contracts/" + lowerHex(address) + "/state" + q.String(),
		member: "state", maxPages: 1, about: func(s *slot) bool { return s.Key == key },
	}
	page, err := l.page(ctx, c, l.path)
	switch {
	case err == ErrNotFound: //nolint:errorlint // exchange returns it bare
		return common.Hash{}, nil
	case err != nil:
		return common.Hash{}, err
	case len(page.items) == 0:
		return common.Hash{}, nil
	}
	return page.items[0].Value, nil
}

// tokenExists tells whether an entity is a token.
func (c *Client) tokenExists(ctx context.Context, id hedera.ID) (bool, error) {
	token, err := c.Token(ctx, id)
	return token != nil, absent(err)
}

// Created is an entity whose existence and age alone matter.
type Created struct {
	At hedera.Timestamp `json:"created_timestamp"`
}

// Token returns when a token was created, or ErrNotFound.
func (c *Client) Token(ctx context.Context, id hedera.ID) (*Created, error) {
	return get[Created](ctx, c, "tokens/{tokenId}", "tokens/"+id.String())
}

// Schedule returns when a schedule was created, or ErrNotFound.
func (c *Client) Schedule(ctx context.Context, id hedera.ID) (*Created, error) {
	type schedule struct {
		At hedera.Timestamp `json:"consensus_timestamp"`
	}
	s, err := get[schedule](ctx, c, "schedules/{scheduleId}", "schedules/"+id.String())
	return (*Created)(s), err
}

// absent turns ErrNotFound into no error.
func absent(err error) error {
	if err == ErrNotFound { //nolint:errorlint // exchange returns it bare
		return nil
	}
	return err
}

// CallRequest is a contract call to simulate.
type CallRequest struct {
	Block          string // a tag, a number in decimal or hex, or a hash; empty is latest
	Estimate       bool   // the answer is the gas that the call needs
	From, To       *common.Address
	Data           []byte
	Gas            uint64   // 0: the maximum that is allowed
	GasPrice       *big.Int // weibar; nil or 0: none
	Value          hedera.Tinybar
	StateOverrides stdjson.RawMessage // an object; nil: none
	AccessList     stdjson.RawMessage // an array; nil: none
	Authorizations stdjson.RawMessage // an array; nil: none
}

// body is the request as the mirror node reads it.
func (q *CallRequest) body() ([]byte, error) {
	body := struct {
		Estimate       bool            `json:"estimate"`
		Block          string          `json:"block,omitzero"`
		From           *common.Address `json:"from,omitzero"`
		To             *common.Address `json:"to,omitzero"`
		Data           []byte          `json:"data,omitempty"`
		Gas            uint64          `json:"gas,omitzero"`
		GasPrice       *big.Int        `json:"gasPrice,omitzero"`
		Value          hedera.Tinybar  `json:"value,omitzero"`
		StateOverrides jsontext.Value  `json:"state_overrides,omitzero"`
		AccessList     jsontext.Value  `json:"accessList,omitzero"`
		Authorizations jsontext.Value  `json:"authorizationList,omitzero"`
	}{q.Estimate, q.Block, q.From, q.To, q.Data, q.Gas, q.GasPrice, q.Value, jsontext.Value(q.StateOverrides), jsontext.Value(q.AccessList), jsontext.Value(q.Authorizations)}
	if len(q.Data) == 0 {
		body.Data = nil
	}
	if q.GasPrice != nil && q.GasPrice.Sign() <= 0 {
		body.GasPrice = nil
	}
	return json.Marshal(body, form)
}

// Call simulates a contract call and returns its output, or the bytes of the gas it needs. A call that fails is
// an *Error, whose Message is a response code such as CONTRACT_REVERT_EXECUTED and whose Data is what it reverted
// with. Identical calls that are under way at once are one.
func (c *Client) Call(ctx context.Context, q CallRequest) ([]byte, error) {
	body, err := q.body()
	if err != nil {
		return nil, fmt.Errorf("contract call: %w", err)
	}
	type answer struct {
		Result []byte `json:"result"`
	}
	post := fetch.Request{Label: "contracts/call", Service: fetch.Web3, Path: "contracts/call", Body: body, Retries: 1}
	got, err := sharedWith(ctx, c, "call "+string(body), post, readOf(func(a *answer) bool { return a.Result != nil }))
	if err != nil {
		return nil, err
	}
	return got.Result, nil
}

// Action is one call in a transaction's tree of calls.
type Action struct {
	Depth     int             `json:"call_depth"`          // 0 for the transaction itself
	Operation string          `json:"call_operation_type"` // CALL, CALLCODE, DELEGATECALL, STATICCALL, CREATE, CREATE2 or UNKNOWN
	Class     string          `json:"call_type"`           // NO_ACTION, CALL, CREATE, PRECOMPILE or SYSTEM
	From      common.Address  `json:"from"`
	To        *common.Address `json:"to"` // nil: a creation failed
	Value     hedera.Tinybar  `json:"value"`
	Gas       uint64          `json:"gas"`
	GasUsed   uint64          `json:"gas_used"`
	Input     []byte          `json:"input"`
	Outcome   Outcome         `json:"result_data_type"`
	Result    []byte          `json:"result_data"` // output, revert data or the name of the failure, by Outcome
}

// Outcome is how a call ended, as the mirror node names it: OUTPUT, or one of these.
type Outcome string

// The outcomes of calls that failed.
const (
	OutcomeRevert Outcome = "REVERT_REASON"
	OutcomeError  Outcome = "ERROR"
)

func (a *Action) weight() int64 { return int64(250 + len(a.Input) + len(a.Result)) }

// Actions returns the calls of a transaction in the order in which they were made. An unknown transaction, or one
// that never ran, has none.
func (c *Client) Actions(ctx context.Context, hash common.Hash) ([]*Action, error) {
	var q query
	q.page(c, Ascending)
	return collect(list[Action]{
		label: resultLabel + "/actions", path: "contracts/results/" + hash.Hex() + "/actions" + q.String(),
		member: "actions", maxPages: c.config.MaxPages,
	}.items(ctx, c))
}

// StateChange is a word of storage that a transaction read or wrote.
type StateChange struct {
	Address common.Address `json:"address"`
	Slot    common.Hash    `json:"slot"`
	Read    common.Hash    `json:"value_read"`    // what it was before
	Written *common.Hash   `json:"value_written"` // nil: it was not written
}

// StateChanges returns the storage that a transaction read or wrote, or ErrNotFound.
func (c *Client) StateChanges(ctx context.Context, hash common.Hash) ([]StateChange, error) {
	path := "contracts/results/" + hash.Hex() + "?hbar=false"
	q := fetch.Request{Label: resultLabel, Path: path}
	type result struct {
		Changes []StateChange `json:"state_changes"`
	}
	read, err := shared[result](ctx, c, "state changes "+path, q)
	if err != nil {
		return nil, err
	}
	return read.Changes, nil
}

// ContractAt returns the contract at an address as it was at a moment, or
// ErrNotFound if there was none yet.
func (c *Client) ContractAt(ctx context.Context, address common.Address, at hedera.Timestamp) (*Contract, error) {
	contract, err := c.contract(ctx, address, "?timestamp=lte:"+at.String())
	if err != nil {
		return nil, err
	}
	if contract.Created.Compare(at) > 0 {
		return nil, ErrNotFound
	}
	return contract, nil
}

// Deployment is the code of a contract before and after its constructor ran.
type Deployment struct {
	Init []byte `json:"bytecode"`
	Code []byte `json:"runtime_bytecode"`
}

// Deployment returns what a contract was made from, or ErrNotFound.
func (c *Client) Deployment(ctx context.Context, address common.Address) (*Deployment, error) {
	path := "contracts/" + lowerHex(address)
	q := fetch.Request{Label: "contracts/{id}", Path: path}
	return shared[Deployment](ctx, c, "deployment "+path, q)
}

// OpcodesQuery says what to tell of the steps of a transaction.
type OpcodesQuery struct {
	Stack, Memory, Storage bool
	// MaxBytes bounds the mirror node's answer, decompressed; 0 means the general limit.
	MaxBytes int64
}

// Opcodes is a transaction step by step, from a replay.
type Opcodes struct {
	Gas    uint64 `json:"gas"`
	Failed bool   `json:"failed"`
	Return []byte `json:"return_value"`
	Steps  []Step `json:"opcodes"`
}

// Step is one instruction.
type Step struct {
	PC      uint64        `json:"pc"`
	Op      string        `json:"op"`
	Gas     uint64        `json:"gas"` // what is left before it
	Cost    uint64        `json:"gas_cost"`
	Depth   int           `json:"depth"`
	Stack   []common.Hash `json:"stack"` // nil if not asked for, as the next two
	Memory  []common.Hash `json:"memory"`
	Storage []Word        `json:"storage"`
	Reason  string        `json:"reason"` // why it failed, in hex or text; empty if it did not
}

// weight is about how many bytes it holds: words are longer than their text, which leaves out zeros.
func (o *Opcodes) weight() int64 {
	const perStep, perWord = 160, 32
	n := len(o.Return) + perStep*cap(o.Steps)
	for i := range o.Steps {
		s := &o.Steps[i]
		n += perWord*(cap(s.Stack)+cap(s.Memory)+2*cap(s.Storage)) + len(s.Reason)
	}
	return int64(n)
}

// Word is an entry of storage.
type Word struct {
	Slot, Value common.Hash
}

// Opcodes replays a transaction, or fails with ErrNotFound, or with an *Error that is
// ErrTooLong. A mirror node may refuse replays altogether.
func (c *Client) Opcodes(ctx context.Context, hash common.Hash, q OpcodesQuery) (*Opcodes, error) {
	path := "contracts/results/" + hash.Hex() + "/opcodes?stack=" + strconv.FormatBool(q.Stack) +
		"&memory=" + strconv.FormatBool(q.Memory) + "&storage=" + strconv.FormatBool(q.Storage)
	key := path + "#" + strconv.FormatInt(q.MaxBytes, 10)
	replay := fetch.Request{Label: resultLabel + "/opcodes", Service: fetch.Web3, Path: path, MaxBytes: q.MaxBytes, Zipped: true}
	return shared[Opcodes](ctx, c, key, replay)
}
