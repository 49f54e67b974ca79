package ethapi

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/internal/relay/evm"
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
	return len(data) > 0 && utf8.Valid(data) && !bytes.ContainsFunc(data, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// add shows a log in the frame that left it. position is the number of calls that the frame made before.
func (c *callFrame) add(l *eth.Log, position int) {
	c.Logs = append(c.Logs, &frameLog{
		Address: l.Address, Topics: topicsOf(l), Data: present(l.Data), Index: l.Index, Position: hexutil.Uint64(position),
	})
}

// frameLog is a log within a call frame. Position is how many calls the frame had made
// before it.
type frameLog struct {
	Address  common.Address `json:"address"`
	Topics   []common.Hash  `json:"topics"`
	Data     hexutil.Bytes  `json:"data"`
	Index    hexutil.Uint64 `json:"index"`
	Position hexutil.Uint64 `json:"position"`
}

func topicsOf(l *eth.Log) []common.Hash {
	if l.Topics == nil {
		return []common.Hash{}
	}
	return l.Topics
}

// placeLogs puts the logs of a transaction into the frames that left them. The mirror node tells only the
// contract of each log. If more than one frame could have left a log, or the frame made calls of its own, the
// instructions decide. Without them, or for the logs of a system contract, the first fitting frame gets the log.
func (a *API) placeLogs(ctx context.Context, s subject, root *callFrame) error {
	byAddress := make(map[common.Address][]*callFrame)
	root.eachLive(func(f *callFrame) {
		if f.context != nil {
			byAddress[*f.context] = append(byAddress[*f.context], f)
		}
	})
	if !certain(byAddress, s.logs) && a.cfg.Debug.OpcodeLogger {
		placed := false
		err := a.replay(ctx, s.hash, mirror.OpcodesQuery{}, func(trace *mirror.Opcodes) error {
			placed = placeBySteps(root, trace.Steps, s.logs)
			return nil
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !refusedReplay(err) {
			return err
		}
		if placed {
			return nil
		}
	}
	services := systemFrame(root)
	for _, l := range s.logs {
		frame := services
		if fitting := byAddress[l.Address]; len(fitting) > 0 {
			frame = fitting[0]
		}
		frame.add(l, 0)
	}
	return nil
}

// eachLive visits the frames whose effects lasted, in the order of the calls.
func (c *callFrame) eachLive(visit func(*callFrame)) {
	if c.undone {
		return
	}
	visit(c)
	for _, call := range c.Calls {
		call.eachLive(visit)
	}
}

// certain tells whether the address of each log is enough to place it.
func certain(byAddress map[common.Address][]*callFrame, logs []*eth.Log) bool {
	for _, l := range logs {
		if fitting := byAddress[l.Address]; len(fitting) != 1 || len(fitting[0].Calls) > 0 {
			return false
		}
	}
	return true
}

// systemFrame is the first call of a system contract, whose logs are those of tokens;
// the root if there is none.
func systemFrame(root *callFrame) *callFrame {
	found := root
	root.eachLive(func(f *callFrame) {
		if found == root && f.To.Address != nil && (*f.To.Address == hedera.Entity(tokenService).LongZero() || *f.To.Address == hedera.Entity(scheduleService).LongZero()) {
			found = f
		}
	})
	return found
}

// walker follows the instructions through the tree of calls.
type walker struct {
	path  []walked
	found []place
}

type walked struct {
	frame *callFrame
	calls int // calls that it has made
}

type place struct {
	frame    *callFrame
	position int
}

// placeBySteps places logs by the instructions that left them. It places none unless
// instructions, calls and logs fit together.
func placeBySteps(root *callFrame, steps []mirror.Step, logs []*eth.Log) bool {
	if len(steps) == 0 {
		return false
	}
	w := walker{path: []walked{{frame: root}}}
	top := steps[0].Depth
	for i := range steps {
		if !w.step(&steps[i], steps[i].Depth-top) {
			return false
		}
	}
	if len(w.found) != len(logs) {
		return false
	}
	for i, p := range w.found {
		if p.frame.context == nil || *p.frame.context != logs[i].Address {
			return false
		}
	}
	for i, p := range w.found {
		p.frame.add(logs[i], p.position)
	}
	return true
}

func (w *walker) step(s *mirror.Step, depth int) bool {
	switch {
	case depth < 0 || depth > len(w.path):
		return false
	case depth == len(w.path):
		caller := &w.path[depth-1]
		if caller.calls == 0 || caller.calls > len(caller.frame.Calls) {
			return false
		}
		w.path = append(w.path, walked{frame: caller.frame.Calls[caller.calls-1]})
	}
	w.path = w.path[:depth+1]
	current := &w.path[depth]
	switch s.Op {
	case "CALL", "CALLCODE", "DELEGATECALL", "STATICCALL", "CREATE", "CREATE2":
		current.calls++
	default:
		if strings.HasPrefix(s.Op, "LOG") && !current.frame.undone {
			w.found = append(w.found, place{current.frame, current.calls})
		}
	}
	return true
}

// Records of what a transaction caused, accounts that it created for instance, have
// times a few nanoseconds before and after its own. The network leaves at least a
// hundred nanoseconds between transactions.
const (
	roomBefore = 4
	roomAfter  = 60
)

// states is accounts by address.
type states = map[common.Address]*evm.Touch

// tracePrestate shows the accounts that a transaction touched as they were before it, or in diff mode what it
// changed.
//
// The mirror node is asked for the state at a time, so balances, code and storage are exact. The nonce of an
// account that is neither the sender nor a contract comes from its last transaction before.
func (a *API) tracePrestate(ctx context.Context, s subject, o traceOptions) (any, error) {
	nothing := json.RawMessage("{}")
	if o.diff {
		nothing = json.RawMessage(`{"post":{},"pre":{}}`)
	}
	if s.result == nil || !s.result.Complete() {
		return nothing, nil
	}
	var actions []*mirror.Action
	var changes []mirror.StateChange
	t, taskCtx := parallel(ctx, 2)
	t.run(func() (err error) { actions, err = a.mirror.Actions(taskCtx, s.hash); return err })
	t.run(func() (err error) {
		shared, err := a.mirror.StateChanges(taskCtx, s.hash)
		changes = slices.Clone(shared) // their addresses are replaced
		_, err = notFound(err)
		return err
	})
	if err := t.wait(); err != nil {
		return nil, err
	}
	sender := s.result.From
	addresses, err := a.touched(ctx, s.result, &sender, actions, changes, o.onlyTop)
	if err != nil {
		return nil, err
	}
	at := s.result.Timestamp.UnixNano()
	pre, err := a.statesAt(ctx, addresses, hedera.FromNanos(at-roomBefore))
	if err != nil {
		return nil, err
	}
	if state := pre[sender]; state != nil && s.result.Nonce != nil && s.result.Type != nil {
		state.Nonce = *s.result.Nonce
	}
	for _, c := range changes {
		if state := pre[c.Address]; state != nil {
			state.Store(c.Slot, c.Read)
		}
	}
	w := stateWriter{hiero: a.hiero(), noCode: o.noCode}
	if !o.diff {
		return w.all(pre, o.withEmpty), nil
	}
	post, err := a.statesAt(ctx, addresses, hedera.FromNanos(at+roomAfter))
	if err != nil {
		return nil, err
	}
	if state := post[sender]; state != nil && s.result.Nonce != nil && s.result.Type != nil {
		state.Nonce = *s.result.Nonce + 1
	}
	for _, c := range changes {
		if state := post[c.Address]; state != nil {
			value := c.Read
			if c.Written != nil {
				value = *c.Written
			}
			state.Store(c.Slot, value)
		}
	}
	return w.diff(pre, post, o.withEmpty), nil
}

// touched lists the accounts that a transaction touched, by the addresses that clients know, and puts these into
// changes as well.
func (a *API) touched(
	ctx context.Context, r *mirror.ContractResult, sender *common.Address, actions []*mirror.Action, changes []mirror.StateChange, onlyTop bool,
) ([]common.Address, error) {
	all := []*common.Address{sender}
	put := func(address common.Address) { all = append(all, &address) }
	for _, address := range []*common.Address{r.To, r.Address} {
		if address != nil {
			put(*address)
		}
	}
	for _, action := range actions {
		if onlyTop && action.Depth > 0 {
			continue
		}
		put(action.From)
		if action.To != nil {
			put(*action.To)
		}
	}
	for i := range changes {
		if !onlyTop {
			put(changes[i].Address)
		}
		all = append(all, &changes[i].Address)
	}
	if err := a.aliases(ctx, all...); err != nil {
		return nil, err
	}
	return distinct(all, changes, onlyTop), nil
}

// distinct leaves out repetitions and system addresses, which have no state. If only the top call counts, it also
// leaves out the storage of others.
func distinct(all []*common.Address, changes []mirror.StateChange, onlyTop bool) []common.Address {
	beside := make(map[*common.Address]bool)
	for i := range changes {
		beside[&changes[i].Address] = onlyTop
	}
	var addresses []common.Address
	seen := make(map[common.Address]bool)
	for _, address := range all {
		if id, numbered := hedera.FromLongZero(*address); beside[address] || seen[*address] || numbered && id.Num <= lastSystemAddress {
			continue
		}
		seen[*address] = true
		addresses = append(addresses, *address)
	}
	return addresses
}

// lastSystemAddress is the last number of the network's own accounts.
const lastSystemAddress = 750

func (a *API) statesAt(ctx context.Context, addresses []common.Address, at hedera.Timestamp) (states, error) {
	list := make([]*evm.Touch, len(addresses))
	err := each(ctx, a.cfg.Concurrency, addresses, func(ctx context.Context, i int, address common.Address) (err error) {
		list[i], err = a.stateAt(ctx, address, at)
		return err
	})
	if err != nil {
		return nil, err
	}
	all := make(states, len(addresses))
	for i, address := range addresses {
		all[address] = list[i]
	}
	return all, nil
}

// stateAt reads the state of an address at a moment, without storage.
func (a *API) stateAt(ctx context.Context, address common.Address, at hedera.Timestamp) (*evm.Touch, error) {
	state := new(evm.Touch)
	balance, err := a.mirror.BalanceAt(ctx, address, at)
	if missing, err := notFound(err); missing || err != nil {
		return state, err
	}
	state.Exists, state.Balance = true, balance
	contract, err := a.mirror.ContractAt(ctx, address, at)
	missing, err := notFound(err)
	if err != nil {
		return nil, err
	}
	if missing {
		return state, a.accountAt(ctx, state, address, at)
	}
	state.Code, state.Gone, state.Nonce = contract.Code, contract.Deleted, 1
	if contract.Nonce != nil {
		state.Nonce = *contract.Nonce
	}
	return state, nil
}

// accountAt completes the state of an account that is no contract.
func (a *API) accountAt(ctx context.Context, state *evm.Touch, address common.Address, at hedera.Timestamp) error {
	account, err := a.mirror.Account(ctx, address)
	if missing, err := notFound(err); missing || err != nil {
		return err
	}
	if account.Nonce == nil || *account.Nonce == 0 {
		return nil
	}
	state.Nonce, err = a.nonceAt(ctx, address, &mirror.Block{Period: mirror.Period{To: at}})
	return err
}

// stateWriter shows states in the profile's form: hiero with every member, ethereum without members that are
// zero.
type stateWriter struct {
	hiero, noCode bool
}

// shownAccount is an account in a trace.
type shownAccount struct {
	Balance *hexutil.Big                `json:"balance,omitempty"`
	Nonce   *uint64                     `json:"nonce,omitempty"`
	Code    hexutil.Bytes               `json:"code,omitzero"`
	Storage map[common.Hash]common.Hash `json:"storage,omitzero"`
}

type shownAccounts map[common.Address]*shownAccount

func (w stateWriter) show(s *evm.Touch) *shownAccount {
	shown := &shownAccount{Balance: (*hexutil.Big)(s.Balance.Weibar()), Storage: s.Storage}
	if s.Nonce > 0 || w.hiero {
		shown.Nonce = &s.Nonce
	}
	if len(s.Code) > 0 || w.hiero {
		shown.Code = present(s.Code)
	}
	if w.noCode {
		shown.Code = nil
	}
	if w.hiero && shown.Storage == nil {
		shown.Storage = map[common.Hash]common.Hash{}
	}
	return shown
}

// all shows the accounts that existed before.
func (w stateWriter) all(pre states, withEmpty bool) shownAccounts {
	shown := make(shownAccounts)
	for address, s := range pre {
		if s.Exists || withEmpty {
			shown[address] = w.show(s)
		}
	}
	return shown
}

// stateDiff is what a transaction changed: the changed accounts as they were before, and their changed members as
// they are after. Of storage both have only the changed words. A deleted account has no after.
type stateDiff struct {
	Post shownAccounts `json:"post"`
	Pre  shownAccounts `json:"pre"`
}

func (w stateWriter) diff(pre, post states, withEmpty bool) stateDiff {
	d := stateDiff{Post: make(shownAccounts), Pre: make(shownAccounts)}
	for address, before := range pre {
		after := post[address]
		deleted := before.Exists && (!after.Exists || after.Gone && !before.Gone)
		changed := w.changes(before, after)
		if !deleted && changed == nil {
			continue
		}
		if before.Exists || withEmpty {
			d.Pre[address] = w.before(before, after)
		}
		if !deleted {
			d.Post[address] = changed
		}
	}
	return d
}

// before shows an account with those words of storage that changed and were not zero.
func (w stateWriter) before(before, after *evm.Touch) *shownAccount {
	own := *before
	own.Storage = nil
	for slot, value := range before.Storage {
		if value != after.Storage[slot] && value != (common.Hash{}) {
			own.Store(slot, value)
		}
	}
	return w.show(&own)
}

// changes shows the different members of an account; nil if there are none.
func (w stateWriter) changes(before, after *evm.Touch) *shownAccount {
	var changed shownAccount
	if before.Balance != after.Balance {
		changed.Balance = (*hexutil.Big)(after.Balance.Weibar())
	}
	if before.Nonce != after.Nonce {
		changed.Nonce = &after.Nonce
	}
	code := !bytes.Equal(before.Code, after.Code)
	if code && !w.noCode {
		changed.Code = present(after.Code)
	}
	words := false
	for slot, value := range after.Storage {
		if value == before.Storage[slot] {
			continue
		}
		words = true
		if value != (common.Hash{}) {
			if changed.Storage == nil {
				changed.Storage = make(map[common.Hash]common.Hash)
			}
			changed.Storage[slot] = value
		}
	}
	if changed.Balance == nil && changed.Nonce == nil && !code && !words {
		return nil
	}
	return &changed
}
