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
	Depth     int    // 0 for the transaction itself
	Operation string // CALL, CALLCODE, DELEGATECALL, STATICCALL, CREATE, CREATE2 or UNKNOWN
	Class     string // NO_ACTION, CALL, CREATE, PRECOMPILE or SYSTEM
	From      common.Address
	To        *common.Address // nil: a creation failed
	Value     hedera.Tinybar
	Gas       uint64
	GasUsed   uint64
	Input     []byte
	Outcome   Outcome
	Result    []byte // output, revert data or the name of the failure, by Outcome
}

// Outcome is how a call ended, as the mirror node names it: OUTPUT, or one of these.
type Outcome string

// The outcomes of calls that failed.
const (
	OutcomeRevert Outcome = "REVERT_REASON"
	OutcomeError  Outcome = "ERROR"
)

func readAction(r *reader, a *Action) {
	r.object(func(key []byte) {
		switch string(key) {
		case "call_depth":
			a.Depth = int(min(r.uint64(), maxDepth))
		case "call_operation_type":
			a.Operation = r.str()
		case "call_type":
			a.Class = r.str()
		case "from":
			a.From = r.address()
		case "to":
			a.To = r.maybeAddress()
		case "value":
			a.Value = hedera.Tinybar(r.int64())
		case "gas":
			a.Gas = r.uint64()
		case "gas_used":
			a.GasUsed = r.uint64()
		case "input":
			a.Input = r.bytes()
		case "result_data_type":
			a.Outcome = Outcome(r.str())
		case "result_data":
			a.Result = r.bytes()
		default:
			r.skip()
		}
	})
}

func (a *Action) weight() int64 { return int64(250 + len(a.Input) + len(a.Result)) }

// maxDepth is the EVM's limit for the depth of calls.
const maxDepth = 1024

// Actions returns the calls of a transaction in the order in which they were made. An unknown transaction, or one
// that never ran, has none.
func (c *Client) Actions(ctx context.Context, hash common.Hash) ([]*Action, error) {
	var q query
	q.page(c, Ascending)
	return collect(list[Action]{
		label: resultLabel + "/actions", path: "contracts/results/" + hash.Hex() + "/actions" + q.String(),
		member: "actions", maxPages: c.config.MaxPages, read: readAction,
	}.items(ctx, c))
}

// StateChange is a word of storage that a transaction read or wrote.
type StateChange struct {
	Address common.Address
	Slot    common.Hash
	Read    common.Hash  // what it was before
	Written *common.Hash // nil: it was not written
}

func readStateChange(r *reader) (s StateChange) {
	r.object(func(key []byte) {
		switch string(key) {
		case "address":
			s.Address = r.address()
		case "slot":
			s.Slot = r.word32()
		case "value_read":
			s.Read = r.word32()
		case "value_written":
			if r.null() {
				return
			}
			written := r.word32()
			s.Written = &written
		default:
			r.skip()
		}
	})
	return s
}

// StateChanges returns the storage that a transaction read or wrote, or ErrNotFound.
func (c *Client) StateChanges(ctx context.Context, hash common.Hash) ([]StateChange, error) {
	path := "contracts/results/" + hash.Hex() + "?hbar=false"
	q := fetch.Request{Label: resultLabel, Path: path}
	changes, err := shared(ctx, c, "state changes "+path, q, func(r *reader, changes *[]StateChange) {
		r.object(func(key []byte) {
			if string(key) != "state_changes" {
				r.skip()
				return
			}
			r.array(func() { *changes = append(*changes, readStateChange(r)) })
		})
	})
	if err != nil {
		return nil, err
	}
	return *changes, nil
}

// ContractAt returns the contract at an address as it was at a moment, or
// ErrNotFound if there was none yet.
func (c *Client) ContractAt(ctx context.Context, address common.Address, at hedera.Timestamp) (*Contract, error) {
	contract, err := get(ctx, c, "contracts/{id}", "contracts/"+lowerHex(address)+"?timestamp=lte:"+at.String(), readContract)
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
	Init, Code []byte
}

// Deployment returns what a contract was made from, or ErrNotFound.
func (c *Client) Deployment(ctx context.Context, address common.Address) (*Deployment, error) {
	path := "contracts/" + lowerHex(address)
	q := fetch.Request{Label: "contracts/{id}", Path: path}
	return shared(ctx, c, "deployment "+path, q, func(r *reader, d *Deployment) {
		r.object(func(key []byte) {
			switch string(key) {
			case "bytecode":
				d.Init = r.bytes()
			case "runtime_bytecode":
				d.Code = r.bytes()
			default:
				r.skip()
			}
		})
	})
}

// OpcodesQuery says what to tell of the steps of a transaction.
type OpcodesQuery struct {
	Stack, Memory, Storage bool
	// MaxBytes bounds the mirror node's answer, decompressed; 0 means the general limit.
	MaxBytes int64
}

// Opcodes is a transaction step by step, from a replay.
type Opcodes struct {
	Gas    uint64
	Failed bool
	Return []byte
	Steps  []Step
}

// Step is one instruction.
type Step struct {
	PC      uint64
	Op      string
	Gas     uint64 // what is left before it
	Cost    uint64
	Depth   int
	Stack   []common.Hash // nil if not asked for, as the next two
	Memory  []common.Hash
	Storage []Word
	Reason  string // why it failed, in hex or text; empty if it did not
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
	return shared(ctx, c, key, replay, readOpcodes)
}

func readOpcodes(r *reader, o *Opcodes) {
	names := make(map[string]string) // one string for each kind of instruction
	r.object(func(key []byte) {
		switch string(key) {
		case "gas":
			o.Gas = r.uint64()
		case "failed":
			o.Failed = r.bool()
		case "return_value":
			o.Return = r.bytes()
		case "opcodes":
			r.array(func() { o.Steps = append(o.Steps, readStep(r, names)) })
		default:
			r.skip()
		}
	})
}

func readStep(r *reader, names map[string]string) (s Step) {
	r.object(func(key []byte) {
		switch string(key) {
		case "pc":
			s.PC = r.uint64()
		case "op":
			text := r.text()
			name, ok := names[string(text)]
			if !ok {
				name = string(text)
				names[name] = name
			}
			s.Op = name
		case "gas":
			s.Gas = r.uint64()
		case "gas_cost":
			s.Cost = r.uint64()
		case "depth":
			s.Depth = int(min(r.uint64(), maxDepth+1))
		case "stack":
			s.Stack = readWords(r)
		case "memory":
			s.Memory = readWords(r)
		case "storage":
			s.Storage = readStorage(r)
		case "reason":
			s.Reason = r.str()
		default:
			r.skip()
		}
	})
	return s
}

// readWords reads words; null is nil, and an empty list is not.
func readWords(r *reader) []common.Hash {
	if r.null() {
		return nil
	}
	words := []common.Hash{}
	r.array(func() { words = append(words, r.word32()) })
	return words
}

// readStorage reads an object of words by slot; null is nil, {} is not.
func readStorage(r *reader) []Word {
	if r.null() {
		return nil
	}
	words := []Word{}
	r.object(func(key []byte) {
		var w Word
		r.word(w.Slot[:], hexPart(key))
		w.Value = r.word32()
		words = append(words, w)
	})
	return words
}
