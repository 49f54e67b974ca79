package decode_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/watch/decode"
)

func parse(t *testing.T, text string) *decode.Signature {
	t.Helper()
	s, err := decode.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParseCanonicalForm(t *testing.T) {
	for text, want := range map[string]string{
		"Transfer(address,address,uint256)":                                     "Transfer(address,address,uint256)",
		"event Transfer(address indexed from, address indexed to, uint value);": "Transfer(address,address,uint256)",
		" Approved ( address )":                                                 "Approved(address)",
		"Nothing()":                                                             "Nothing()",
		"Made(tuple(uint a, bytes32[] b)[2][] list, (address,bool) indexed pair)":      "Made((uint256,bytes32[])[2][],(address,bool))",
		"EscrowDeployed(address indexed escrow,address indexed payer, int8 indexed n)": "EscrowDeployed(address,address,int8)",
	} {
		s := parse(t, text)
		if s.String() != want {
			t.Errorf("%q = %s, want %s", text, s, want)
		}
		if s.Selector != crypto.Keccak256Hash([]byte(want)) {
			t.Errorf("%q has selector %s", text, s.Selector)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, bad := range []string{
		"", "Transfer", "Transfer(", "Transfer(address", "Transfer(address,)", "Transfer(address) x", "1a(address)", "T(nothing)", "T(address a b)", "T(uint257)",
		"T(address a, bool a)", "T(address indexed, address indexed, address indexed, address indexed)", "T" + strings.Repeat("(", 40) + strings.Repeat(")", 40),
	} {
		if s, err := decode.Parse(bad); err == nil {
			t.Errorf("%q was read as %s", bad, s)
		}
	}
}

func TestParseListSplitsOutsideParentheses(t *testing.T) {
	for _, text := range []string{"Approved(address),Released(address,uint256),Refunded(address,uint256)", "Approved(address);Released(address,uint256) ; Refunded(address,uint256);"} {
		list, err := decode.ParseList(text)
		if err != nil || len(list) != 3 || list[1].String() != "Released(address,uint256)" {
			t.Errorf("%q = %v, %v", text, list, err)
		}
	}
	if _, err := decode.ParseList("A(address),B(nothing),C(nope)"); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two bad signatures give %v", err)
	}
}

var (
	alice = common.HexToAddress("0x67D8d32E9Bf1a9968a5ff53B87d777Aa8EBBEe69")
	word  = func(a common.Address) common.Hash { return common.BytesToHash(a[:]) }
)

func pack(t *testing.T, types string, values ...any) []byte {
	t.Helper()
	var args abi.Arguments
	for name := range strings.SplitSeq(types, " ") {
		typ, err := abi.NewType(name, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, abi.Argument{Type: typ})
	}
	data, err := args.Pack(values...)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestDecode(t *testing.T) {
	huge, _ := new(big.Int).SetString("123456789012345678901234567890", 10)
	for name, c := range map[string]struct {
		signature string
		topics    []common.Hash
		data      []byte
		want      string
	}{
		"as marked":                        {"E(address indexed to, uint256 amount)", []common.Hash{word(alice)}, pack(t, "uint256", huge), `{"amount":"123456789012345678901234567890","to":"0x67D8d32E9Bf1a9968a5ff53B87d777Aa8EBBEe69"}`},
		"no marks, one topic":              {"E(address,uint256)", []common.Hash{word(alice)}, pack(t, "uint256", big.NewInt(7)), `{"arg0":"0x67D8d32E9Bf1a9968a5ff53B87d777Aa8EBBEe69","arg1":"7"}`},
		"no marks, no topics":              {"E(address,uint256)", nil, pack(t, "address uint256", alice, big.NewInt(7)), `{"arg0":"0x67D8d32E9Bf1a9968a5ff53B87d777Aa8EBBEe69","arg1":"7"}`},
		"the data tells what is indexed":   {"E(string note, address who)", []common.Hash{word(alice)}, pack(t, "string", "hello"), `{"note":"hello","who":"0x67D8d32E9Bf1a9968a5ff53B87d777Aa8EBBEe69"}`},
		"marks that the log does not keep": {"E(address indexed a, uint8 b)", nil, pack(t, "address uint8", alice, uint8(9)), `{"a":"0x67D8d32E9Bf1a9968a5ff53B87d777Aa8EBBEe69","b":9}`},
		"numbers and strings":              {"E(uint48 a, uint64 b, int32 c, bool d, bytes4 e, bytes f)", nil, pack(t, "uint48 uint64 int32 bool bytes4 bytes", big.NewInt(1<<40), uint64(1)<<60, int32(-5), true, [4]byte{1, 2, 3, 4}, []byte{0xff}), `{"a":1099511627776,"b":"1152921504606846976","c":-5,"d":true,"e":"0x01020304","f":"0xff"}`},
		"lists":                            {"E(uint16[] a, address[1] b)", nil, pack(t, "uint16[] address[1]", []uint16{1, 2}, [1]common.Address{alice}), `{"a":[1,2],"b":["0x67D8d32E9Bf1a9968a5ff53B87d777Aa8EBBEe69"]}`},
		"a dynamic type as a hash":         {"E(string indexed s)", []common.Hash{{31: 1}}, nil, `{"s":"0x0000000000000000000000000000000000000000000000000000000000000001"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := parse(t, c.signature)
			args, err := s.Decode(append([]common.Hash{s.Selector}, c.topics...), c.data)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(args)
			if err != nil || string(got) != c.want {
				t.Errorf("got %s, %v, want %s", got, err, c.want)
			}
		})
	}
}

func TestDecodeRefusesWhatDoesNotFit(t *testing.T) {
	s := parse(t, "E(address,uint256)")
	for name, c := range map[string]struct {
		topics []common.Hash
		data   []byte
	}{
		"no topics":                {nil, nil},
		"another event":            {[]common.Hash{{1}}, pack(t, "address uint256", alice, big.NewInt(1))},
		"a topic more":             {[]common.Hash{s.Selector, {}, {}, {}}, nil},
		"data too short":           {[]common.Hash{s.Selector, word(alice)}, []byte{1}},
		"data too long":            {[]common.Hash{s.Selector, word(alice)}, make([]byte, 64)},
		"an address that is wider": {[]common.Hash{s.Selector, {0: 1}}, bytes.Repeat([]byte{0xff}, 32)},
	} {
		if args, err := s.Decode(c.topics, c.data); !errors.Is(err, decode.ErrMismatch) {
			t.Errorf("%s: %v, %v", name, args, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("E(address indexed a,uint256 b)", []byte{1, 2, 3}, 1)
	f.Add("E((uint8,string)[] x)", make([]byte, 128), 0)
	f.Fuzz(func(t *testing.T, text string, data []byte, topics int) {
		if len(text) > 200 || len(data) > 4096 {
			return
		}
		s, err := decode.Parse(text)
		if err != nil {
			return
		}
		again, err := decode.Parse(s.String())
		if err != nil || again.Selector != s.Selector {
			t.Fatalf("%q is printed as %q, which is %v, %v", text, s, again, err)
		}
		list := []common.Hash{s.Selector}
		for i := range min(max(topics, 0), 3) {
			list = append(list, common.Hash{31: byte(i)})
		}
		if args, err := s.Decode(list, data); err == nil {
			if _, err := json.Marshal(args); err != nil {
				t.Fatal(err)
			}
		}
	})
}
