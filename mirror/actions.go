package mirror

import (
	"context"
	"strconv"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/hedera"
	"lockstep/mirror/fetch"
)

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
	contract, err := get[Contract](ctx, c, "contracts/{id}", "contracts/"+lowerHex(address)+"?timestamp=lte:"+at.String())
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
