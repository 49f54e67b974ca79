package show

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/console"
	"lockstep/devnet/ledger/history"
)

// consoleAddress is where the console libraries of Hardhat and foundry write: the ASCII text
// "console.log".
var consoleAddress = common.BytesToAddress([]byte("console.log"))

// consoleDecoder reads calls of the console. The zero value is ready for use.
type consoleDecoder struct {
	functions map[[4]byte]abi.Arguments // made at the first call
}

// line returns what a call wrote; false if it is none to the console.
func (d *consoleDecoder) line(a *history.Action) (string, bool) {
	if a.To != consoleAddress || len(a.Input) < 4 {
		return "", false
	}
	if d.functions == nil {
		d.functions = consoleFunctions()
	}
	arguments, known := d.functions[[4]byte(a.Input[:4])]
	if !known {
		return fmt.Sprintf("0x%x", a.Input), true
	}
	values, err := arguments.Unpack(a.Input[4:])
	if err != nil {
		return fmt.Sprintf("0x%x", a.Input), true
	}
	return clean(consoleText(values)), true
}

// consoleFunctions are the arguments of each function of the console libraries, by selector.
func consoleFunctions() map[[4]byte]abi.Arguments {
	functions := map[[4]byte]abi.Arguments{}
	for _, text := range console.LogFunctions() {
		_, functions[[4]byte(crypto.Keccak256([]byte(text)))] = signature(text)
	}
	return functions
}

// consoleText puts values into the places of a format, as JavaScript's console does, and the
// rest after it.
func consoleText(values []any) string {
	var parts []string
	if format, ok := first(values); ok && len(values) > 1 {
		text, rest := fill(format, values[1:])
		parts, values = append(parts, text), rest
	}
	for _, v := range values {
		parts = append(parts, consoleValue(v))
	}
	return strings.Join(parts, " ")
}

func first(values []any) (string, bool) {
	if len(values) == 0 {
		return "", false
	}
	text, ok := values[0].(string)
	return text, ok
}

// fill replaces %s, %d, %i, %o and %x; %% is a percent sign.
func fill(format string, values []any) (string, []any) {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		switch verb := format[i+1]; {
		case verb == '%':
			b.WriteByte('%')
			i++
		case strings.IndexByte("sdiox", verb) >= 0 && len(values) > 0:
			if n, ok := values[0].(*big.Int); ok && verb == 'x' {
				fmt.Fprintf(&b, "0x%x", n)
			} else {
				b.WriteString(consoleValue(values[0]))
			}
			values = values[1:]
			i++
		default:
			b.WriteByte('%')
		}
	}
	return b.String(), values
}

func consoleValue(v any) string {
	switch v := v.(type) {
	case common.Address:
		return v.Hex()
	case []byte:
		return fmt.Sprintf("0x%x", v)
	case [32]byte:
		return fmt.Sprintf("0x%x", v[:])
	default:
		return fmt.Sprint(v)
	}
}
