package near

import (
	"encoding/json"
	"strconv"

	"lockstep/internal/near"
)

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
