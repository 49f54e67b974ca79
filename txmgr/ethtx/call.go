package ethtx

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"

	"lockstep/txmgr"
	"lockstep/watch/decode"
)

// Encode returns the data of a call: the function's selector and its arguments, or, to deploy, the bytecode and those of the constructor. Errors
// name the member of the request, and of args the argument.
func (f Form) Encode(c txmgr.Calling) (data []byte, declared []string, err error) {
	all, err := readABI(c.ABI)
	if err != nil {
		return nil, nil, wrong("abi", err.Error())
	}
	if declared, err = declarations(all.Errors); err != nil {
		return nil, nil, err
	}
	data, err = f.encode(c, all)
	return data, declared, err
}

func (f Form) encode(c txmgr.Calling, all decode.ABI) ([]byte, error) {
	if c.Function == "" && len(c.Args) == 0 {
		return c.Bytecode, nil
	}
	s, err := f.signature(c, all)
	if err != nil {
		return nil, err
	}
	names := s.Args()
	if len(names) != len(c.Args) {
		return nil, wrong("args", fmt.Sprintf("%s has %d arguments, not %d", s, len(names), len(c.Args)))
	}
	arguments, values := make(abi.Arguments, len(names)), make([]any, len(names))
	for n, name := range names {
		in := typed(name, s.TypeOf(name))
		field := fmt.Sprintf("args[%d] (%s %s)", n, s.TypeOf(name), name)
		if arguments[n].Type, err = abi.NewType(in.Type, "", in.Components); err != nil {
			return nil, wrong(field, err.Error())
		}
		value, err := f.value(arguments[n].Type, c.Args[n])
		if err != nil {
			return nil, wrong(field, err.Error())
		}
		values[n] = value.Interface()
	}
	packed, err := arguments.Pack(values...)
	if err != nil {
		return nil, wrong("args", err.Error())
	}
	if len(c.Bytecode) > 0 {
		return append(bytes.Clone(c.Bytecode), packed...), nil
	}
	return append(s.Selector.Bytes()[:4], packed...), nil
}

// typed writes a type such as "(uint8,bool)[2]" as package abi reads it.
func typed(name, text string) abi.ArgumentMarshaling {
	if !strings.HasPrefix(text, "(") {
		return abi.ArgumentMarshaling{Name: name, Type: text}
	}
	end := strings.LastIndexByte(text, ')')
	out := abi.ArgumentMarshaling{Name: name, Type: "tuple" + text[end+1:]}
	depth, from := 0, 1
	for at := 1; at <= end; at++ {
		switch {
		case depth == 0 && (text[at] == ',' || at == end):
			out.Components = append(out.Components, typed(fmt.Sprintf("member%d", len(out.Components)), text[from:at]))
			from = at + 1
		case text[at] == '(':
			depth++
		case text[at] == ')':
			depth--
		}
	}
	return out
}

func wrong(field, problem string) error { return &txmgr.InvalidError{Field: field, Problem: problem} }

// signature finds out which function is called: its declaration, or the one of that name in the ABI.
func (f Form) signature(c txmgr.Calling, all decode.ABI) (*decode.Signature, error) {
	deploys := len(c.Bytecode) > 0
	text := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(c.Function), "function "))
	if strings.Contains(text, "(") {
		s, err := decode.Parse(text)
		if err != nil {
			return nil, wrong("function", err.Error())
		}
		if deploys && s.Name != "constructor" {
			return nil, wrong("function", "with bytecode want constructor(…), such as constructor(string name,uint8 decimals)")
		}
		return s, nil
	}
	if len(c.ABI) == 0 {
		return nil, wrong("function", "want its signature, such as transfer(address to,uint256 amount), or an abi that has its name")
	}
	if deploys {
		if all.Constructor == nil || text != "" && text != "constructor" {
			return nil, wrong("args", "the abi has no constructor that takes any")
		}
		return all.Constructor, nil
	}
	var found []*decode.Signature
	for _, s := range all.Functions {
		if s.Name == text {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return nil, wrong("function", fmt.Sprintf("the abi has no function %q", text))
	case 1:
		return found[0], nil
	default:
		return nil, wrong("function", fmt.Sprintf("the abi has %d functions %q: want one's signature, such as %s", len(found), text, found[0]))
	}
}

// value makes of JSON what package abi wants for a type.
func (f Form) value(t abi.Type, raw json.RawMessage) (reflect.Value, error) {
	out := reflect.New(t.GetType()).Elem()
	switch t.T {
	case abi.BoolTy:
		var flag *bool
		if json.Unmarshal(raw, &flag) != nil || flag == nil {
			return out, errors.New("want true or false")
		}
		out.SetBool(*flag)
	case abi.StringTy:
		text, err := textOf(raw, "want a text")
		if err != nil {
			return out, err
		}
		out.SetString(text)
	case abi.AddressTy:
		text, err := textOf(raw, "want an address as text")
		if err != nil {
			return out, err
		}
		name, err := f.Account(text)
		if err != nil {
			return out, err
		}
		out.Set(reflect.ValueOf(common.HexToAddress(name)))
	case abi.BytesTy, abi.FixedBytesTy, abi.FunctionTy:
		text, err := textOf(raw, "want bytes as 0x text")
		if err != nil {
			return out, err
		}
		digits, prefixed := strings.CutPrefix(text, "0x")
		decoded, err := hex.DecodeString(digits)
		if err != nil || !prefixed {
			return out, errors.New("want bytes as 0x text")
		}
		if t.T == abi.BytesTy {
			out.SetBytes(decoded)
			break
		}
		if len(decoded) != out.Len() {
			return out, fmt.Errorf("want %d bytes, not %d", out.Len(), len(decoded))
		}
		reflect.Copy(out, reflect.ValueOf(decoded))
	case abi.IntTy, abi.UintTy:
		return out, number(t, raw, out)
	case abi.SliceTy, abi.ArrayTy, abi.TupleTy:
		return out, f.values(t, raw, out)
	default:
		return out, fmt.Errorf("no argument can be of type %s", t.String())
	}
	return out, nil
}

// values fills a list, an array, or a tuple, which is the list of its members.
func (f Form) values(t abi.Type, raw json.RawMessage, out reflect.Value) error {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || list == nil {
		return errors.New("want a list")
	}
	if t.T == abi.SliceTy {
		out.Set(reflect.MakeSlice(out.Type(), len(list), len(list)))
	}
	want := t.Size
	if t.T == abi.TupleTy {
		want = len(t.TupleElems)
	}
	if t.T != abi.SliceTy && len(list) != want {
		return fmt.Errorf("want a list of %d, not %d", want, len(list))
	}
	for n, one := range list {
		elem := t.Elem
		if t.T == abi.TupleTy {
			elem = t.TupleElems[n]
		}
		value, err := f.value(*elem, one)
		if err != nil {
			return fmt.Errorf("[%d]: %w", n, err)
		}
		if t.T == abi.TupleTy {
			out.Field(n).Set(value)
		} else {
			out.Index(n).Set(value)
		}
	}
	return nil
}

// number reads an integer as JSON, decimal text or 0x text. Numbers beyond 2⁵³ come as they are written, not as a float.
func number(t abi.Type, raw json.RawMessage, out reflect.Value) error {
	problem := fmt.Errorf("want a whole number of %d bits: an integer, decimal text or 0x text", t.Size)
	text := string(raw)
	if len(raw) > 0 && raw[0] == '"' {
		if json.Unmarshal(raw, &text) != nil {
			return problem
		}
	}
	digits, negative := strings.CutPrefix(text, "-")
	base := 10
	if rest, hexadecimal := strings.CutPrefix(digits, "0x"); hexadecimal {
		digits, base = rest, 16
	}
	if digits == "" || len(digits) > 78 || strings.TrimLeft(digits, "0123456789abcdefABCDEF") != "" {
		return problem
	}
	n, ok := new(big.Int).SetString(digits, base)
	if !ok {
		return problem
	}
	if negative {
		n.Neg(n)
	}
	low, high := new(big.Int), new(big.Int).Lsh(big.NewInt(1), uint(t.Size))
	if t.T == abi.IntTy {
		high.Rsh(high, 1)
		low.Neg(high)
	}
	if n.Cmp(low) < 0 || n.Cmp(high) >= 0 {
		return problem
	}
	switch out.Kind() {
	case reflect.Pointer: // *big.Int
		out.Set(reflect.ValueOf(n))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		out.SetUint(n.Uint64())
	default:
		out.SetInt(n.Int64())
	}
	return nil
}

func textOf(raw json.RawMessage, problem string) (string, error) {
	var text *string
	if json.Unmarshal(raw, &text) != nil || text == nil {
		return "", errors.New(problem)
	}
	return *text, nil
}
