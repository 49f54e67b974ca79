package ethapi

import (
	"context"
	"encoding/json"
	"unicode/utf8"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/eth"
	"lockstep/mirror"
)

// callFrame is a call as the call tracer shows it. Members that are nil or empty text are left out. The profiles
// differ in which ones.
type callFrame struct {
	Type         string         `json:"type"`
	From         common.Address `json:"from"`
	To           frameReceiver  `json:"to,omitzero"`
	Value        *hexutil.Big   `json:"value,omitempty"`
	Gas          hexutil.Uint64 `json:"gas"`
	GasUsed      hexutil.Uint64 `json:"gasUsed"`
	Input        hexutil.Bytes  `json:"input"`
	Output       hexutil.Bytes  `json:"output,omitzero"`
	Error        string         `json:"error,omitempty"`
	RevertReason string         `json:"revertReason,omitempty"`
	Calls        []*callFrame   `json:"calls,omitzero"`
	Logs         []*frameLog    `json:"logs,omitempty"`

	context *common.Address // whose storage it works on
	undone  bool            // it failed, or a call around it failed
}

// frameReceiver is the receiver of a call. A creation that failed has none: the member is then left out, or null.
type frameReceiver struct {
	*common.Address
	null bool // written as null
}

func (r frameReceiver) IsZero() bool { return r.Address == nil && !r.null }

// MarshalJSON writes the address, or null.
func (r frameReceiver) MarshalJSON() ([]byte, error) { return json.Marshal(r.Address) }

// traceCalls shows a transaction as a tree of calls.
func (a *API) traceCalls(ctx context.Context, s subject, o traceOptions) (any, error) {
	if s.result == nil {
		return a.traceSynthetic(ctx, s, o)
	}
	actions, err := a.mirror.Actions(ctx, s.hash)
	if err != nil {
		return nil, err
	}
	f := a.frames()
	root := f.root(s.result, actions)
	if a.hiero() && len(actions) == 0 && s.result.Status == 0 && s.result.GasUsed == 0 {
		root.Gas, root.Input, root.Value = syntheticGas, hexutil.Bytes{}, new(hexutil.Big) // as the TypeScript relay shows what did not run
	}
	if len(actions) > 0 {
		f.tree(root, actions[1:])
	}
	if err := f.finish(ctx); err != nil {
		return nil, err
	}
	if o.withLog && len(s.logs) > 0 {
		if err := a.placeLogs(ctx, s, root); err != nil {
			return nil, err
		}
	}
	if o.onlyTop {
		root.Calls = nil
	}
	if a.hiero() && root.Calls == nil {
		root.Calls = []*callFrame{}
	}
	return root, nil
}

// traceSynthetic shows a transfer of tokens that no contract call made.
func (a *API) traceSynthetic(ctx context.Context, s subject, o traceOptions) (any, error) {
	first := s.logs[0]
	from, err := a.payerOf(ctx, s.first)
	if err != nil {
		return nil, err
	}
	to := first.Address
	if len(first.Topics) >= 3 {
		to = common.BytesToAddress(first.Topics[2][:])
	}
	f := &callFrame{
		Type: "CALL", From: from, To: frameReceiver{Address: &to}, Value: new(hexutil.Big), Gas: syntheticGas,
		Input: hexutil.Bytes{}, Output: hexutil.Bytes{}, Calls: []*callFrame{},
	}
	if err := a.aliases(ctx, f.To.Address); err != nil {
		return nil, err
	}
	if !a.hiero() {
		f.Output, f.Calls = nil, nil
	}
	if o.withLog {
		for _, l := range s.logs {
			f.add(l, 0)
		}
	}
	return f, nil
}

// frames makes call frames.
type frames struct {
	builder
	api  *API
	all  []*callFrame
	made []*callFrame // creations whose code is not among the actions
}

func (a *API) frames() *frames { return &frames{builder: a.builder(), api: a} }

// root makes the frame of the transaction itself. The request and the cost are in its result; the first action
// also has its end.
func (f *frames) root(r *mirror.ContractResult, actions []*mirror.Action) *callFrame {
	root := &callFrame{
		Type: "CALL", From: r.From, To: frameReceiver{Address: r.To}, Value: eth.Number(f.amount(r.Amount)),
		Gas: hexutil.Uint64(r.GasLimit), GasUsed: hexutil.Uint64(r.GasUsed), Input: present(r.Input), Output: present(r.Output),
	}
	if r.To == nil || r.CreatedContract() {
		root.Type, root.To.Address = "CREATE", r.Address
	}
	var first *mirror.Action
	if len(actions) > 0 {
		first = actions[0]
		if first.Operation != "" && first.Operation != "UNKNOWN" {
			root.Type = first.Operation
		}
	}
	if r.Status == 0 {
		f.failRoot(root, r, first)
	}
	f.add(root)
	return root
}

// textReverted is go-ethereum's text for a call that reverted.
const textReverted = "execution reverted"

// failRoot says why the transaction failed.
func (f *frames) failRoot(root *callFrame, r *mirror.ContractResult, first *mirror.Action) {
	root.undone = true
	data := errorBytes(r.ErrorMessage)
	reason, decoded := revertReason(data)
	if f.api.hiero() {
		root.Error, root.Output = r.Result, present(data)
		switch {
		case decoded:
			root.RevertReason = reason
		case printable(data):
			root.RevertReason = string(data)
		case len(data) == 0:
			root.RevertReason = r.Result
		}
		return
	}
	root.Output = nil
	name := r.Result
	switch {
	case name == statusReverted, first != nil && first.Outcome == mirror.OutcomeRevert:
		root.Error, root.RevertReason = textReverted, reason
		if len(data) > 0 {
			root.Output = data
		}
		return
	case first != nil && first.Outcome == mirror.OutcomeError && printable(first.Result):
		name = string(first.Result)
	case printable(data):
		name = string(data)
	}
	root.Error = haltText(name)
}

// tree puts each action below the call that made it. The actions come in the order of the calls.
func (f *frames) tree(root *callFrame, actions []*mirror.Action) {
	path := []*callFrame{root} // from the root to the newest frame
	for _, action := range actions {
		depth := min(max(action.Depth, 1), len(path))
		path = path[:depth]
		parent := path[depth-1]
		frame := f.frame(action, parent)
		parent.Calls = append(parent.Calls, frame)
		path = append(path, frame)
	}
}

func (f *frames) frame(action *mirror.Action, parent *callFrame) *callFrame {
	frame := &callFrame{
		Type: action.Operation, From: action.From, To: frameReceiver{Address: action.To}, Value: (*hexutil.Big)(action.Value.Weibar()),
		Gas: hexutil.Uint64(action.Gas), GasUsed: hexutil.Uint64(action.GasUsed), Input: present(action.Input),
		undone: parent.undone,
	}
	if frame.Type == "" || frame.Type == "UNKNOWN" {
		frame.Type = "CALL"
	}
	switch frame.Type {
	case "DELEGATECALL", "CALLCODE":
		frame.context = parent.context
	case "STATICCALL":
		if !f.api.hiero() {
			frame.Value = nil // as in go-ethereum
		}
	}
	f.end(frame, action)
	f.add(frame)
	return frame
}

// end says how a call ended.
func (f *frames) end(frame *callFrame, action *mirror.Action) {
	switch action.Outcome {
	case mirror.OutcomeRevert:
		frame.undone = true
		frame.Error, frame.Output = statusReverted, present(action.Result)
		frame.RevertReason, _ = revertReason(action.Result)
	case mirror.OutcomeError:
		frame.undone = true
		frame.Error, frame.Output = string(action.Result), hexutil.Bytes{}
		if !printable(action.Result) {
			frame.Error = "CONTRACT_EXECUTION_EXCEPTION"
		}
	default:
		frame.Output = present(action.Result)
		if frame.creates() && len(action.Input) == 0 {
			f.made = append(f.made, frame)
		}
	}
	if f.api.hiero() {
		return
	}
	if frame.Error != "" {
		frame.Error = haltText(frame.Error)
	}
}

func (c *callFrame) creates() bool { return c.Type == "CREATE" || c.Type == "CREATE2" }

// add copies the frame's receiver, so that it can be replaced.
func (f *frames) add(frame *callFrame) {
	if to := frame.To.Address; to != nil {
		own := *to
		frame.To.Address = &own
	}
	if frame.context == nil {
		frame.context = frame.To.Address
	}
	f.all = append(f.all, frame)
}

// finish looks up what the actions do not have: aliases, and the code of contracts that were created on the way.
func (f *frames) finish(ctx context.Context) error {
	var addresses []*common.Address
	for _, frame := range f.all {
		addresses = append(addresses, &frame.From)
		frame.To.null = f.api.hiero()
		if to := frame.To.Address; to != nil {
			addresses = append(addresses, to)
		}
	}
	if err := f.api.aliases(ctx, addresses...); err != nil {
		return err
	}
	err := each(ctx, f.api.cfg.Concurrency, f.made, func(ctx context.Context, _ int, frame *callFrame) error {
		if frame.To.Address == nil {
			return nil
		}
		made, err := f.api.mirror.Deployment(ctx, *frame.To.Address)
		if missing, err := notFound(err); missing || err != nil {
			return err
		}
		frame.Input = present(made.Init)
		if len(frame.Output) == 0 {
			frame.Output = present(made.Code)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !f.api.hiero() {
		f.plain()
	}
	return nil
}

// plain removes the members that go-ethereum leaves out.
func (f *frames) plain() {
	for _, frame := range f.all {
		if len(frame.Output) == 0 {
			frame.Output = nil
		}
		if frame.creates() && frame.Error != "" {
			frame.To.Address = nil
		}
	}
}

// haltText is go-ethereum's text for the network's name of a failure. Names that only the network has stay as
// they are.
func haltText(name string) string {
	switch name {
	case statusReverted:
		return textReverted
	case "INSUFFICIENT_GAS":
		return "out of gas"
	case "ILLEGAL_STATE_CHANGE", "LOCAL_CALL_MODIFICATION_EXCEPTION":
		return "write protection"
	case "INVALID_OPERATION":
		return "invalid opcode"
	case "INSUFFICIENT_STACK_ITEMS":
		return "stack underflow"
	case "TOO_MANY_STACK_ITEMS":
		return "stack limit reached"
	case "INVALID_JUMP_DESTINATION":
		return "invalid jump destination"
	case "CODE_TOO_LARGE":
		return "max code size exceeded"
	case "INVALID_CODE":
		return "invalid code: must not begin with 0xef"
	case "INVALID_RETURN_DATA_BUFFER_ACCESS", "OUT_OF_BOUNDS":
		return "return data out of bounds"
	case "INSUFFICIENT_PAYER_BALANCE":
		return "insufficient balance for transfer"
	}
	return name
}

// present returns data that is shown even if it is empty.
func present(data []byte) hexutil.Bytes {
	if data == nil {
		return hexutil.Bytes{}
	}
	return data
}

// printable tells whether data is text.
func printable(data []byte) bool {
	if len(data) == 0 || !utf8.Valid(data) {
		return false
	}
	for _, c := range data {
		if c < ' ' || c == 0x7f {
			return false
		}
	}
	return true
}

// add shows a log in the frame that left it. position is the number of calls that the frame made before.
func (c *callFrame) add(l *eth.Log, position int) {
	c.Logs = append(c.Logs, &frameLog{
		Address: l.Address, Topics: topicsOf(l), Data: present(l.Data), Index: l.Index, Position: hexutil.Uint64(position),
	})
}
