package near

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

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

// read reads what a pointer points at, by its type. As says what its tag says.
func read(text []byte, v reflect.Value, as string) (err error) {
	var s string
	quoted := json.Unmarshal(text, &s) == nil
	switch into := v.Addr().Interface().(type) {
	case *uint256.Int:
		if !quoted || into.SetFromDecimal(s) != nil || into.BitLen() > 128 {
			return errors.New("want an amount of yoctoNEAR as decimal text with a maximum of 128 bits")
		}
	case **uint256.Int:
		*into = new(uint256.Int)
		return read(text, v.Elem(), as)
	case *PublicKey:
		if !quoted {
			return errors.New("want a public key such as ed25519:…")
		}
		*into, err = ParsePublicKey(s)
	case *Signature:
		*into, err = ParseSignature(s)
	case *Permission:
		*into, err = ParsePermission(text)
	case *[]Action:
		*into, err = parseActions(text, as == delegated)
	case *[]byte:
		if as == arguments {
			*into, err = readArguments(text)
			return err
		}
		err = json.Unmarshal(text, into)
	case *string:
		if err = json.Unmarshal(text, into); as == account {
			err = CheckAccount(s)
		}
	case *uint64, *[]string:
		err = json.Unmarshal(text, into)
	default:
		return readMembers(text, v)
	}
	return err
}

// readArguments reads what a method is called with: base64, or an object, which is taken as it is.
func readArguments(text []byte) ([]byte, error) {
	var compact bytes.Buffer
	if text[0] == '{' && json.Compact(&compact, text) == nil {
		return compact.Bytes(), nil
	}
	var data []byte
	if text[0] != '"' || json.Unmarshal(text, &data) != nil {
		return nil, errors.New("args: want base64, or an object")
	}
	return data, nil
}

// readMembers reads an object that has a member for each field, none of them null unless it may be left out, and no others.
func readMembers(text []byte, v reflect.Value) error {
	var have map[string]json.RawMessage
	if json.Unmarshal(text, &have) != nil || have == nil {
		return errors.New("want an object")
	}
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		name, option, _ := strings.Cut(tag.Get("json"), ",")
		switch value, there := have[name]; {
		case there && string(value) != "null":
			if err := read(value, v.Field(i), tag.Get("near")); err != nil {
				return err
			}
		case option != "omitempty":
			return fmt.Errorf("%s is missing", name)
		}
		delete(have, name)
	}
	for name := range have {
		return fmt.Errorf("%q does not belong here", name)
	}
	return nil
}

// onlyBorsh is the number of the first kind that nodes do not show so.
var onlyBorsh = slices.Index(kinds, reflect.TypeFor[DeployGlobalContract]())

func parseAction(text []byte, nested bool) (Action, error) {
	name, body, err := named(text)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(kinds[:onlyBorsh], func(kind reflect.Type) bool { return kind.Name() == name })
	switch {
	case at < 0:
		return nil, fmt.Errorf("%q is not a kind of action that can be given as JSON; data takes every kind in Borsh", name)
	case name == "Delegate" && nested:
		return nil, errNested
	case name == "CreateAccount" && len(body) == 0:
		return CreateAccount{}, nil
	case name == "Delegate" && len(body) > 0 && body[0] == '"':
		return parseDelegate(body)
	}
	action := reflect.New(kinds[at]).Elem()
	members := action
	if name == "Delegate" {
		members = action.Field(0)
	}
	if err := readMembers(body, members); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return action.Interface(), nil
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
	var call CallPermission
	if err = readMembers(body, reflect.ValueOf(&call).Elem()); err == nil {
		err = CheckAccount(call.Receiver)
	}
	if err != nil {
		return nil, fmt.Errorf("permission: %w", err)
	}
	return call, nil
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
