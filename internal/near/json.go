package near

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holiman/uint256"
)

// ParseActions reads a list of actions as JSON, in the form in which nodes show them:
//
//	["CreateAccount", {"Transfer":{"deposit":"1"}}, {"AddKey":{"public_key":"ed25519:…","access_key":{"permission":"FullAccess"}}}]
//
// Amounts are yoctoNEAR as decimal text. The args of a FunctionCall are base64; an object in their place is sent as its
// JSON text. A Delegate may also be its bytes in base64, as wallets hand it over. What is not known is refused.
func ParseActions(text []byte) ([]Action, error) { return parseActions(text, false) }

// longestJSON bounds the text of a list: base64 takes a third more than the bytes, and names are short.
const longestJSON = 2 * MaxTransaction

func parseActions(text []byte, nested bool) ([]Action, error) {
	if len(text) > longestJSON {
		return nil, fmt.Errorf("%d bytes of actions; the maximum is %d", len(text), longestJSON)
	}
	var list []json.RawMessage
	if json.Unmarshal(text, &list) != nil || len(list) == 0 {
		return nil, errors.New("want a list of actions")
	}
	if len(list) > MaxActions {
		return nil, tooMany(len(list))
	}
	actions := make([]Action, len(list))
	for i, one := range list {
		action, err := parseAction(one, nested)
		if err != nil {
			return nil, fmt.Errorf("action %d: %w", i+1, err)
		}
		actions[i] = action
	}
	return actions, nil
}

// strict reads JSON into a value that has a field for each member.
func strict(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// named reads a name alone, or an object whose only member has a name.
func named(text []byte) (name string, body json.RawMessage, err error) {
	if json.Unmarshal(text, &name) == nil {
		return name, nil, nil
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil || len(object) != 1 {
		return "", nil, errors.New(`want a name, or an object with one name, such as {"Transfer":{"deposit":"1"}}`)
	}
	for name, body = range object { //nolint:revive // the only one
	}
	return name, body, nil
}

// amount is yoctoNEAR as decimal text.
type amount uint256.Int

// UnmarshalJSON implements json.Unmarshaler.
func (a *amount) UnmarshalJSON(text []byte) error {
	var digits string
	var n uint256.Int
	if json.Unmarshal(text, &digits) != nil || n.SetFromDecimal(digits) != nil || n.BitLen() > 128 {
		return errors.New("want an amount of yoctoNEAR as decimal text with a maximum of 128 bits")
	}
	*a = amount(n)
	return nil
}

// publicKey is a public key's text.
type publicKey PublicKey

// UnmarshalJSON implements json.Unmarshaler.
func (k *publicKey) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) != nil {
		return errors.New("want a public key such as ed25519:…")
	}
	parsed, err := ParsePublicKey(s)
	*k = publicKey(parsed)
	return err
}

// account is an account id that can exist.
type account string

// UnmarshalJSON implements json.Unmarshaler.
func (a *account) UnmarshalJSON(text []byte) error {
	var s string
	if json.Unmarshal(text, &s) != nil {
		return errors.New("want an account id")
	}
	*a = account(s)
	return CheckAccount(s)
}

// arguments are what a method is called with.
type arguments []byte

// UnmarshalJSON reads base64, or takes an object as it is.
func (a *arguments) UnmarshalJSON(text []byte) (err error) {
	var s string
	switch {
	case len(text) > 0 && text[0] == '{':
		var compact bytes.Buffer
		err = json.Compact(&compact, text)
		*a = compact.Bytes()
	case json.Unmarshal(text, &s) == nil:
		if *a, err = base64.StdEncoding.DecodeString(s); err != nil {
			err = errors.New("args: want base64, or an object")
		}
	default:
		err = errors.New("args: want base64, or an object")
	}
	return err
}

// actionJSON is the members of all kinds of actions.
type actionJSON struct {
	Method      string          `json:"method_name"`
	Args        arguments       `json:"args"`
	Gas         uint64          `json:"gas"`
	Deposit     amount          `json:"deposit"`
	Stake       amount          `json:"stake"`
	PublicKey   publicKey       `json:"public_key"`
	AccessKey   accessKeyJSON   `json:"access_key"`
	Beneficiary account         `json:"beneficiary_id"`
	Code        []byte          `json:"code"`
	Action      json.RawMessage `json:"delegate_action"`
	Signature   string          `json:"signature"`
}

type accessKeyJSON struct {
	Nonce      uint64          `json:"nonce"` // the chain sets it
	Permission json.RawMessage `json:"permission"`
}

// fields are the members that each kind must have. Others are refused.
var fields = map[string][]string{
	"CreateAccount":  {},
	"DeployContract": {"code"},
	"FunctionCall":   {"method_name", "args", "gas", "deposit"},
	"Transfer":       {"deposit"},
	"Stake":          {"stake", "public_key"},
	"AddKey":         {"public_key", "access_key"},
	"DeleteKey":      {"public_key"},
	"DeleteAccount":  {"beneficiary_id"},
	"Delegate":       {"delegate_action", "signature"},
}

func parseAction(text []byte, nested bool) (Action, error) {
	name, body, err := named(text)
	if err != nil {
		return nil, err
	}
	want, known := fields[name]
	switch {
	case !known:
		return nil, fmt.Errorf("%q is not a kind of action that can be given as JSON; data takes every kind in Borsh", name)
	case name == "Delegate" && nested:
		return nil, errNested
	case name == "CreateAccount" && len(body) == 0:
		return CreateAccount{}, nil
	case name == "Delegate" && len(body) > 0 && body[0] == '"':
		return parseDelegate(body)
	}
	if err := members(body, want); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var a actionJSON
	if err := strict(body, &a); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	action, err := a.action(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return action, nil
}

// members checks that an object has the given members, none of them null, and no others.
func members(text []byte, want []string) error {
	var have map[string]json.RawMessage
	if json.Unmarshal(text, &have) != nil || have == nil {
		return errors.New("want an object")
	}
	for _, name := range want {
		if value, ok := have[name]; !ok || string(value) == "null" {
			return fmt.Errorf("%s is missing", name)
		}
		delete(have, name)
	}
	for name := range have {
		return fmt.Errorf("%q does not belong here", name)
	}
	return nil
}

func (a *actionJSON) action(name string) (Action, error) {
	switch name {
	case "CreateAccount":
		return CreateAccount{}, nil
	case "DeployContract":
		return DeployContract{Code: a.Code}, nil
	case "FunctionCall":
		return FunctionCall{Method: a.Method, Args: a.Args, Gas: a.Gas, Deposit: uint256.Int(a.Deposit)}, nil
	case "Transfer":
		return Transfer{Deposit: uint256.Int(a.Deposit)}, nil
	case "Stake":
		return Stake{Stake: uint256.Int(a.Stake), PublicKey: PublicKey(a.PublicKey)}, nil
	case "AddKey":
		permission, err := ParsePermission(a.AccessKey.Permission)
		return AddKey{PublicKey: PublicKey(a.PublicKey), AccessKey: AccessKey{Nonce: a.AccessKey.Nonce, Permission: permission}}, err
	case "DeleteKey":
		return DeleteKey{PublicKey: PublicKey(a.PublicKey)}, nil
	case "DeleteAccount":
		return DeleteAccount{Beneficiary: string(a.Beneficiary)}, nil
	default:
		return a.delegate()
	}
}

// ParsePermission reads what an access key may do, in the form in which nodes show it.
func ParsePermission(text []byte) (Permission, error) {
	name, body, err := named(text)
	switch {
	case err == nil && name == "FullAccess" && len(body) == 0:
		return FullAccess{}, nil
	case err != nil || name != "FunctionCall":
		return nil, errors.New(`permission: want "FullAccess", or {"FunctionCall":{"allowance":null,"receiver_id":"…","method_names":[]}}`)
	}
	var call struct {
		Allowance *amount  `json:"allowance"`
		Receiver  *account `json:"receiver_id"`
		Methods   []string `json:"method_names"`
	}
	if err := strict(body, &call); err != nil {
		return nil, fmt.Errorf("permission: %w", err)
	}
	if call.Receiver == nil {
		return nil, errors.New("permission: receiver_id is missing")
	}
	return CallPermission{Allowance: (*uint256.Int)(call.Allowance), Receiver: string(*call.Receiver), Methods: call.Methods}, nil
}

func (a *actionJSON) delegate() (Action, error) {
	var d struct {
		Sender    account         `json:"sender_id"`
		Receiver  account         `json:"receiver_id"`
		Actions   json.RawMessage `json:"actions"`
		Nonce     uint64          `json:"nonce"`
		MaxHeight uint64          `json:"max_block_height"`
		PublicKey publicKey       `json:"public_key"`
	}
	if err := members(a.Action, []string{"sender_id", "receiver_id", "actions", "nonce", "max_block_height", "public_key"}); err != nil {
		return nil, err
	}
	if err := strict(a.Action, &d); err != nil {
		return nil, err
	}
	inner, err := parseActions(d.Actions, true)
	if err != nil {
		return nil, err
	}
	signature, err := ParseSignature(a.Signature)
	if err != nil {
		return nil, err
	}
	return Delegate{SignedDelegate{DelegateAction{
		Sender: string(d.Sender), Receiver: string(d.Receiver), Actions: inner, Nonce: d.Nonce, MaxBlockHeight: d.MaxHeight, PublicKey: PublicKey(d.PublicKey),
	}, signature}}, nil
}

// parseDelegate reads a signed delegate action as base64 of its bytes.
func parseDelegate(body []byte) (Action, error) {
	var data []byte
	if json.Unmarshal(body, &data) != nil {
		return nil, errors.New("a Delegate is base64 of a signed delegate action, or an object")
	}
	d, err := DecodeDelegate(data)
	if err != nil {
		return nil, err
	}
	return Delegate{d}, nil
}
