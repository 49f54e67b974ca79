package near

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/holiman/uint256"

	"lockstep/internal/near"
)

// gasPrice is in yoctoNEAR. It never changes.
const gasPrice = 100_000_000

// nonceRange is how many nonces of a key belong to one block.
const nonceRange = 1_000_000

// record is a transaction in a block.
type record struct {
	tx       near.SignedTransaction
	hash     near.Hash
	block    *block
	outcome  outcome
	receipts []*receipt // in the order of their execution
	waiting  int        // receipts that are not executed yet, without refunds
	refunds  int        // refunds that are not executed yet
}

// receipt is a step of a transaction at one account.
type receipt struct {
	id          near.Hash
	of          *record
	predecessor string // "system" refunds
	receiver    string
	signer      string
	key         near.PublicKey
	actions     []near.Action
	gas         uint64 // that was paid for its execution
	outcome     outcome
}

func (r *receipt) refund() bool { return r.predecessor == "system" }

// outcome is what became of a transaction or a receipt.
type outcome struct {
	block    *block // nil: it waits
	executor string
	gas      uint64
	logs     []string
	receipts []near.Hash
	value    []byte
	next     *near.Hash // the receipt that has the value
	failure  object
}

// accept executes a valid transaction, which makes a receipt. It returns receipts for the
// next block.
func (w *work) accept(hash near.Hash, tx near.SignedTransaction) []*receipt {
	cost, burnt := costOf(tx)
	signer := w.edit(tx.Signer)
	signer.amount.Sub(&signer.amount, &cost)
	key := signer.keys[tx.PublicKey]
	key.Nonce = tx.Nonce
	if p, ok := key.Permission.(near.CallPermission); ok && p.Allowance != nil {
		left := new(uint256.Int).Sub(p.Allowance, &cost)
		p.Allowance = left
		key.Permission = p
	}
	signer.keys[tx.PublicKey] = key
	r := &record{tx: tx, hash: hash, block: w.block}
	first := &receipt{
		id: w.chain.id(), of: r, predecessor: tx.Signer, receiver: tx.Receiver, signer: tx.Signer, key: tx.PublicKey,
		actions: tx.Actions, gas: execution(tx.Actions),
	}
	r.outcome = outcome{block: w.block, executor: tx.Signer, gas: burnt, next: &first.id}
	w.block.txs = append(w.block.txs, r)
	w.chain.remember(r)
	w.enlist(first, &r.outcome)
	if tx.Signer == tx.Receiver {
		return w.execute(first)
	}
	return []*receipt{first}
}

// enlist counts a receipt that an outcome has made.
func (w *work) enlist(r *receipt, by *outcome) {
	by.receipts = append(by.receipts, r.id)
	r.of.receipts = append(r.of.receipts, r)
	if r.refund() {
		r.of.refunds++
	} else {
		r.of.waiting++
	}
}

// execute executes a receipt, all of its actions or none, and returns the receipts that it
// has made.
func (w *work) execute(r *receipt) []*receipt {
	r.outcome = outcome{block: w.block, executor: r.receiver}
	if r.refund() {
		r.of.refunds--
		if a := w.edit(r.receiver); a != nil {
			deposit := near.Deposit(r.actions)
			a.amount.Add(&a.amount, &deposit)
		}
		return nil
	}
	r.of.waiting--
	try := &work{chain: w.chain, block: w.block, changed: map[string]*account{}}
	maps.Copy(try.changed, w.changed)
	run := &run{work: try, receipt: r, used: baseFee}
	for i, action := range r.actions {
		if failure := run.act(action); failure != nil {
			r.outcome.failure = object{"ActionError": object{"index": i, "kind": failure}}
			break
		}
	}
	r.outcome.gas = min(run.used, r.gas)
	r.outcome.logs = run.logs
	spent := run.used + run.given
	var made []*receipt
	if r.outcome.failure != nil {
		spent = run.used
		if deposit := near.Deposit(r.actions); !deposit.IsZero() {
			made = append(made, w.refundOf(r, r.predecessor, deposit))
		}
	} else {
		w.changed = try.changed
		made = run.made
		r.outcome.value = run.value
		r.outcome.next = run.next
	}
	if r.gas > spent {
		left := *new(uint256.Int).Mul(uint256.NewInt(r.gas-spent), uint256.NewInt(gasPrice))
		made = append(made, w.refundOf(r, r.signer, left))
	}
	for _, m := range made {
		w.enlist(m, &r.outcome)
	}
	return made
}

func (w *work) refundOf(r *receipt, to string, amount uint256.Int) *receipt {
	return &receipt{
		id: w.chain.id(), of: r.of, predecessor: "system", receiver: to, signer: r.signer, key: r.key,
		actions: []near.Action{near.Transfer{Deposit: amount}},
	}
}

// run is the execution of one receipt.
type run struct {
	*work
	receipt *receipt
	created bool   // the receipt has created its receiver
	used    uint64 // gas
	given   uint64 // gas that goes with receipts that were made
	made    []*receipt
	value   []byte
	next    *near.Hash // the receipt that was made and has the value
	logs    []string
}

// act executes one action, or tells why not.
func (r *run) act(action near.Action) object {
	id := r.receipt.receiver
	r.used += feeOf(action).execution
	r.value, r.next = nil, nil // the last action's count
	if r.view(id) == nil {
		switch action.(type) {
		case near.CreateAccount:
		case near.Transfer:
			if !implicit(id) || len(r.receipt.actions) > 1 {
				return object{"AccountDoesNotExist": object{"account_id": id}}
			}
		default:
			return object{"AccountDoesNotExist": object{"account_id": id}}
		}
	}
	switch a := action.(type) {
	case near.CreateAccount:
		return r.create()
	case near.Transfer:
		return r.transfer(a)
	case near.FunctionCall:
		return r.call(a)
	case near.Delegate:
		return r.delegate(a)
	}
	if r.receipt.predecessor != id && !r.created {
		return object{"ActorNoPermission": object{"account_id": id, "actor_id": r.receipt.predecessor}}
	}
	return r.administer(action)
}

// administer executes what only the account itself may do.
func (r *run) administer(action near.Action) object {
	id := r.receipt.receiver
	account := r.edit(id)
	switch a := action.(type) {
	case near.AddKey:
		if _, there := account.keys[a.PublicKey]; there {
			return object{"AddKeyAlreadyExists": object{"account_id": id, "public_key": a.PublicKey.String()}}
		}
		account.keys[a.PublicKey] = near.AccessKey{Nonce: (r.block.height - 1) * nonceRange, Permission: a.AccessKey.Permission}
	case near.DeleteKey:
		if _, there := account.keys[a.PublicKey]; !there {
			return object{"DeleteKeyDoesNotExist": object{"account_id": id, "public_key": a.PublicKey.String()}}
		}
		delete(account.keys, a.PublicKey)
	case near.DeployContract:
		account.code, account.contract = a.Code, ""
	case near.DeleteAccount:
		if !account.amount.IsZero() {
			gone := r.refundOf(r.receipt, a.Beneficiary, account.amount)
			r.made = append(r.made, gone)
		}
		r.changed[id] = nil
	}
	return nil
}

func (r *run) create() object {
	id, by := r.receipt.receiver, r.receipt.predecessor
	switch {
	case r.view(id) != nil:
		return object{"AccountAlreadyExists": object{"account_id": id}}
	case implicit(id):
		return object{"OnlyImplicitAccountCreationAllowed": object{"account_id": id}}
	case !strings.Contains(id, "."):
		return object{"CreateAccountOnlyByRegistrar": object{"account_id": id, "registrar_account_id": "registrar", "predecessor_id": by}}
	case !strings.HasSuffix(id, "."+by) || strings.Contains(strings.TrimSuffix(id, "."+by), "."):
		return object{"CreateAccountNotAllowed": object{"account_id": id, "predecessor_id": by}}
	}
	r.changed[id] = newAccount()
	r.created = true
	return nil
}

// implicit reports whether an id is the hexadecimal form of an ed25519 key.
func implicit(id string) bool {
	return len(id) == 64 && strings.Trim(id, "0123456789abcdef") == ""
}

func (r *run) transfer(a near.Transfer) object {
	id := r.receipt.receiver
	if r.view(id) == nil {
		made := newAccount()
		data, _ := hex.DecodeString(id) // it is implicit
		key, err := near.NewPublicKey(near.Ed25519, data)
		if err != nil {
			return object{"AccountDoesNotExist": object{"account_id": id}}
		}
		made.keys[key] = near.AccessKey{Nonce: (r.block.height - 1) * nonceRange, Permission: near.FullAccess{}}
		r.changed[id] = made
	}
	account := r.edit(id)
	account.amount.Add(&account.amount, &a.Deposit)
	return nil
}

// delegate executes a delegate action: it uses a nonce of the sender's key and makes a
// receipt, whose gas and deposits the relayer has paid.
func (r *run) delegate(a near.Delegate) object {
	id := r.receipt.receiver
	switch {
	case !a.Verify():
		return object{"DelegateActionInvalidSignature": object{}}
	case a.Sender != id:
		return object{"DelegateActionSenderDoesNotMatchTxReceiver": object{"sender_id": a.Sender, "receiver_id": id}}
	case r.block.height > a.MaxBlockHeight:
		return object{"DelegateActionExpired": object{}}
	}
	account := r.edit(id)
	key, there := account.keys[a.PublicKey]
	if !there {
		return object{"DelegateActionAccessKeyError": object{"AccessKeyNotFound": object{"account_id": id, "public_key": a.PublicKey.String()}}}
	}
	if refusal := permits(key.Permission, a.DelegateAction.Receiver, a.DelegateAction.Actions); refusal != nil {
		return object{"DelegateActionAccessKeyError": refusal}
	}
	if a.DelegateAction.Nonce <= key.Nonce {
		return object{"DelegateActionInvalidNonce": object{"delegate_nonce": a.DelegateAction.Nonce, "ak_nonce": key.Nonce}}
	}
	if bound := r.block.height * nonceRange; a.DelegateAction.Nonce >= bound {
		return object{"DelegateActionNonceTooLarge": object{"delegate_nonce": a.DelegateAction.Nonce, "upper_bound": bound}}
	}
	key.Nonce = a.DelegateAction.Nonce
	account.keys[a.PublicKey] = key
	r.promise(a.DelegateAction.Receiver, a.DelegateAction.Actions)
	return nil
}

// promise makes a receipt of the receiver for another account, which has the value.
func (r *run) promise(to string, actions []near.Action) {
	gas := execution(actions)
	r.given += gas
	made := &receipt{
		id: r.chain.id(), of: r.receipt.of, predecessor: r.receipt.receiver, receiver: to, signer: r.receipt.signer, key: r.receipt.key,
		actions: actions, gas: gas,
	}
	r.made, r.next = append(r.made, made), &made.id
}

// fee is the gas of an action.
type fee struct{ send, execution uint64 }

// baseFee is the gas of a receipt itself, to send and to execute.
const baseFee = 108_059_500_000

// feeOf has the fees of nearcore's protocol, without those per byte.
func feeOf(action near.Action) fee {
	same := func(n uint64) fee { return fee{n, n} }
	switch a := action.(type) {
	case near.CreateAccount:
		return same(3_850_000_000_000)
	case near.Transfer:
		return same(115_123_062_500)
	case near.AddKey:
		return same(101_765_125_000)
	case near.DeleteKey:
		return same(94_946_625_000)
	case near.DeleteAccount:
		return same(147_489_000_000)
	case near.DeployContract:
		return same(184_765_750_000)
	case near.FunctionCall:
		return fee{200_000_000_000, 780_000_000_000}
	case near.Delegate:
		inner := uint64(baseFee)
		for _, one := range a.Actions {
			inner += feeOf(one).send
		}
		return fee{200_000_000_000, 200_000_000_000 + inner}
	default:
		return fee{}
	}
}

// execution is the gas that is paid for executing actions.
func execution(actions []near.Action) uint64 {
	gas := uint64(baseFee)
	for _, action := range actions {
		gas = addGas(gas, feeOf(action).execution)
		switch a := action.(type) {
		case near.FunctionCall:
			gas = addGas(gas, a.Gas)
		case near.Delegate:
			gas = addGas(gas, execution(a.Actions))
		}
	}
	return gas
}

func addGas(a, b uint64) uint64 {
	if a+b < a {
		return ^uint64(0)
	}
	return a + b
}

// costOf is what a transaction takes from its signer, and the gas that its inclusion burns.
func costOf(tx near.SignedTransaction) (cost uint256.Int, burnt uint64) {
	burnt = baseFee
	for _, action := range tx.Actions {
		burnt = addGas(burnt, feeOf(action).send)
	}
	gas := uint256.NewInt(addGas(burnt, execution(tx.Actions)))
	deposit := near.Deposit(tx.Actions)
	cost.Add(gas.Mul(gas, uint256.NewInt(gasPrice)), &deposit)
	return cost, burnt
}

// codeHash is the hash of an account's code, zero bytes without any.
func (a *account) codeHash() near.Hash {
	switch {
	case a.contract != "":
		return sha256.Sum256([]byte("built in: " + a.contract))
	case len(a.code) > 0:
		return sha256.Sum256(a.code)
	default:
		return near.Hash{}
	}
}

// maxGas is what all calls of a transaction may be given.
const maxGas = 300_000_000_000_000

// check tells what a block has against a transaction, in nearcore's words; nil if nothing.
func (w *work) check(tx near.SignedTransaction) any {
	c := w.chain
	height, known := c.heights[tx.BlockHash]
	if !known || w.block.height > height+c.config.Validity {
		return "Expired"
	}
	if refusal := wellFormed(tx.Actions); refusal != nil {
		return object{"ActionsValidation": refusal}
	}
	signer := w.view(tx.Signer)
	if signer == nil {
		return object{"SignerDoesNotExist": object{"signer_id": tx.Signer}}
	}
	key, there := signer.keys[tx.PublicKey]
	if !there {
		return object{"InvalidAccessKeyError": object{"AccessKeyNotFound": object{"account_id": tx.Signer, "public_key": tx.PublicKey.String()}}}
	}
	if tx.Nonce <= key.Nonce {
		return object{"InvalidNonce": object{"tx_nonce": tx.Nonce, "ak_nonce": key.Nonce}}
	}
	if bound := w.block.height * nonceRange; tx.Nonce >= bound {
		return object{"NonceTooLarge": object{"tx_nonce": tx.Nonce, "upper_bound": bound}}
	}
	cost, _ := costOf(tx)
	if cost.Gt(&signer.amount) {
		return object{"NotEnoughBalance": object{"signer_id": tx.Signer, "balance": signer.amount.Dec(), "cost": cost.Dec()}}
	}
	if p, ok := key.Permission.(near.CallPermission); ok && p.Allowance != nil && cost.Gt(p.Allowance) {
		return object{"InvalidAccessKeyError": object{"NotEnoughAllowance": object{
			"account_id": tx.Signer, "public_key": tx.PublicKey.String(), "allowance": p.Allowance.Dec(), "cost": cost.Dec(),
		}}}
	}
	if refusal := permits(key.Permission, tx.Receiver, tx.Actions); refusal != nil {
		return object{"InvalidAccessKeyError": refusal}
	}
	return nil
}

// permits tells what an access key has against actions; nil if nothing.
func permits(permission near.Permission, receiver string, actions []near.Action) any {
	p, limited := permission.(near.CallPermission)
	if !limited {
		return nil
	}
	if len(actions) != 1 {
		return "RequiresFullAccess"
	}
	call, ok := actions[0].(near.FunctionCall)
	switch {
	case !ok:
		return "RequiresFullAccess"
	case !call.Deposit.IsZero():
		return "DepositWithFunctionCall"
	case receiver != p.Receiver:
		return object{"ReceiverMismatch": object{"tx_receiver": receiver, "ak_receiver": p.Receiver}}
	case len(p.Methods) > 0 && !slices.Contains(p.Methods, call.Method):
		return object{"MethodNameMismatch": object{"method_name": call.Method}}
	}
	return nil
}

// wellFormed tells what is wrong with a list of actions whatever the state is.
func wellFormed(actions []near.Action) any {
	gas, delegates := uint64(0), 0
	for i, action := range actions {
		switch a := action.(type) {
		case near.DeleteAccount:
			if i != len(actions)-1 {
				return "DeleteActionMustBeFinal"
			}
		case near.FunctionCall:
			if a.Gas == 0 {
				return "FunctionCallZeroAttachedGas"
			}
			gas = addGas(gas, a.Gas)
		case near.Delegate:
			if delegates++; delegates > 1 {
				return "DelegateActionMustBeOnlyOne"
			}
			if refusal := wellFormed(a.Actions); refusal != nil {
				return refusal
			}
		case near.Stake, near.DeployGlobalContract, near.UseGlobalContract:
			return object{"UnsupportedProtocolFeature": object{"protocol_feature": "not in the model", "version": protocolVersion}}
		}
	}
	if gas > maxGas {
		return object{"TotalPrepaidGasExceeded": object{"total_prepaid_gas": gas, "limit": uint64(maxGas)}}
	}
	return nil
}

// The contracts that the model has instead of WebAssembly.
const (
	// Registrar creates accounts below its own:
	// create_account({"new_account_id": "…", "new_public_key": "…"}), with their money as deposit.
	Registrar = "registrar"
	// Counter counts: increment({"by": 1}) returns the new number, get() the number.
	Counter = "counter"
	// Failing panics at every call.
	Failing = "failing"
)

// callGas is what a call of these contracts burns.
const callGas = 2_500_000_000_000

// call executes a function call.
func (r *run) call(a near.FunctionCall) object {
	account := r.edit(r.receipt.receiver)
	if a.Gas < callGas {
		r.used = addGas(r.used, a.Gas)
		return callError(object{"ExecutionError": "Exceeded the prepaid gas."})
	}
	r.used += callGas
	account.amount.Add(&account.amount, &a.Deposit)
	switch account.contract {
	case Registrar:
		return r.register(a)
	case Counter, Failing:
		value, failure := account.counter(a.Method, a.Args, r.receipt.receiver)
		r.value = value
		if failure == nil {
			r.logs = append(r.logs, a.Method)
		}
		return failure
	default:
		return account.noContract(r.receipt.receiver)
	}
}

func (a *account) noContract(id string) object {
	if len(a.code) > 0 {
		return callError(object{"CompilationError": object{"PrepareError": "Instantiate"}})
	}
	return callError(object{"CompilationError": object{"CodeDoesNotExist": object{"account_id": id}}})
}

// counter calls a method; the account may be changed.
func (a *account) counter(method string, args []byte, id string) ([]byte, object) {
	if a.contract == Failing {
		return nil, panicked("this contract always fails")
	}
	if a.contract != Counter {
		return nil, a.noContract(id)
	}
	n, _ := strconv.ParseInt(a.state["count"], 10, 64) // nothing is 0
	switch method {
	case "get":
	case "increment":
		by := struct{ By *int64 }{}
		if err := json.Unmarshal(args, &by); err != nil {
			return nil, panicked("the arguments are not JSON")
		}
		if by.By == nil {
			n++
		} else {
			n += *by.By
		}
		a.state["count"] = strconv.FormatInt(n, 10)
	default:
		return nil, callError(object{"MethodResolveError": "MethodNotFound"})
	}
	return strconv.AppendInt(nil, n, 10), nil
}

// register creates an account by a receipt of the registrar's.
func (r *run) register(a near.FunctionCall) object {
	if a.Method != "create_account" {
		return callError(object{"MethodResolveError": "MethodNotFound"})
	}
	var args struct {
		Account string `json:"new_account_id"`
		Key     string `json:"new_public_key"`
	}
	if err := json.Unmarshal(a.Args, &args); err != nil {
		return panicked("the arguments are not JSON")
	}
	key, err := near.ParsePublicKey(args.Key)
	if err != nil || near.CheckAccount(args.Account) != nil {
		return panicked("the new account's id or key is invalid")
	}
	actions := []near.Action{
		near.CreateAccount{}, near.Transfer{Deposit: a.Deposit}, near.AddKey{PublicKey: key, AccessKey: near.AccessKey{Permission: near.FullAccess{}}},
	}
	if cost := execution(actions); a.Gas < callGas+cost {
		return callError(object{"ExecutionError": "Exceeded the prepaid gas."})
	}
	account := r.edit(r.receipt.receiver)
	account.amount.Sub(&account.amount, &a.Deposit)
	r.promise(args.Account, actions)
	return nil
}

func callError(kind object) object { return object{"FunctionCallError": kind} }

func panicked(text string) object {
	return callError(object{"ExecutionError": "Smart contract panicked: " + text})
}
