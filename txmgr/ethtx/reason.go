package ethtx

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"

	"lockstep/txmgr"
	"lockstep/watch/decode"
)

// Bounds of the errors that a request may declare: they are stored with it.
const (
	maxErrors     = 100
	maxErrorsText = 8 << 10
)

// readABI reads an ABI as compilers write it, or a list of declarations such as "error Short(uint256 have,uint256 want)".
func readABI(raw json.RawMessage) (decode.ABI, error) {
	var list []string
	if len(raw) == 0 {
		return decode.ABI{}, nil
	}
	if json.Unmarshal(raw, &list) != nil {
		return decode.ReadABI(raw)
	}
	var all decode.ABI
	for _, text := range list {
		kind, declaration, _ := strings.Cut(strings.TrimSpace(text), " ")
		if strings.HasPrefix(kind, "constructor") {
			kind, declaration = "constructor", text
		}
		s, err := decode.Parse(declaration)
		if err != nil {
			return all, err
		}
		switch kind {
		case "error":
			all.Errors = append(all.Errors, s)
		case "function":
			all.Functions = append(all.Functions, s)
		case "constructor":
			all.Constructor = s
		case "event":
		default:
			return all, fmt.Errorf("%.60q: want error, function, constructor or event before a name", text)
		}
	}
	return all, nil
}

// declarations writes errors as txmgr.Extra has them.
func declarations(list []*decode.Signature) ([]string, error) {
	var out []string
	size := 0
	for _, s := range list {
		names := s.Args()
		for n, name := range names {
			names[n] = s.TypeOf(name) + " " + name
		}
		text := s.Name + "(" + strings.Join(names, ",") + ")"
		out, size = append(out, text), size+len(text)
	}
	if len(out) > maxErrors || size > maxErrorsText {
		return nil, wrong("abi", fmt.Sprintf("it declares more than %d errors, or more than %d bytes of them: leave out those that this call cannot meet", maxErrors, maxErrorsText))
	}
	return out, nil
}

// Reason puts revert data in words: Error(string), a panic, or an error that was declared. What nobody declared keeps its selector.
func (Form) Reason(output []byte, declared []string) string {
	if len(output) == 0 {
		return ""
	}
	if reason, err := abi.UnpackRevert(output); err == nil {
		return reason
	}
	if len(output) < 4 {
		return "0x" + hex.EncodeToString(output)
	}
	for _, text := range declared {
		s, err := decode.Parse(text)
		if err != nil || !bytes.Equal(s.Selector[:4], output[:4]) {
			continue
		}
		values, err := s.Decode([]common.Hash{s.Selector}, output[4:])
		if err != nil {
			continue
		}
		names := s.Args()
		for n, name := range names {
			names[n] = fmt.Sprintf("%s=%v", name, values.Args[name])
		}
		return s.Name + "(" + strings.Join(names, ", ") + ")"
	}
	return "an error that no abi declares: 0x" + hex.EncodeToString(output[:min(len(output), 260)])
}

var _ txmgr.Encoder = Form{}
