package decode_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"runtime"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/must"
	"lockstep/watch/decode"
)

func parse(t *testing.T, text string) *decode.Signature {
	t.Helper()
	return must.Get(decode.Parse(text))(t)
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
		typ := must.Get(abi.NewType(name, "", nil))(t)
		args = append(args, abi.Argument{Type: typ})
	}
	return must.Get(args.Pack(values...))(t)
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
		"a topic that cannot be a number":  {"E(uint256,address)", []common.Hash{word(alice)}, pack(t, "uint256", big.NewInt(7)), `{"arg0":"7","arg1":"0x67D8d32E9Bf1a9968a5ff53B87d777Aa8EBBEe69"}`},
		"bytes behind the data":            {"E(address indexed to, uint8 n)", []common.Hash{word(alice)}, append(pack(t, "uint8", uint8(7)), 1, 2), `{"n":7,"to":"0x67D8d32E9Bf1a9968a5ff53B87d777Aa8EBBEe69"}`},
		"dirty words":                      {"E(address a, uint8 b, int8 c, bool d, bytes2 e)", nil, bytes.Repeat([]byte{0xfe}, 160), `{"a":"0xfefeFEFeFEFEFEFEFeFefefefefeFEfEfefefEfe","b":254,"c":-2,"d":true,"e":"0xfefe"}`},
		"tails in another order":           {"E(bytes a, bytes b)", nil, join(64+64, 64, 1, shifted(0xb1), 1, shifted(0xa1)), `{"a":"0xa1","b":"0xb1"}`},
		"an end without padding":           {"E(string s)", nil, append(join(32, 2), "ok"...), `{"s":"ok"}`},
		"lists":                            {"E(uint16[] a, address[1] b)", nil, pack(t, "uint16[] address[1]", []uint16{1, 2}, [1]common.Address{alice}), `{"a":[1,2],"b":["0x67D8d32E9Bf1a9968a5ff53B87d777Aa8EBBEe69"]}`},
		"a dynamic type as a hash":         {"E(string indexed s)", []common.Hash{{31: 1}}, nil, `{"s":"0x0000000000000000000000000000000000000000000000000000000000000001"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := parse(t, c.signature)
			args := must.Get(s.Decode(append([]common.Hash{s.Selector}, c.topics...), c.data))(t)
			got, err := json.Marshal(args.Args)
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
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		args, err := s.Decode(list, data)
		runtime.ReadMemStats(&after)
		ways := 1
		if topics > 0 && topics < len(s.Args()) {
			ways = 1140
		}
		if taken, most := after.TotalAlloc-before.TotalAlloc, uint64(ways*(64*len(data)+64<<10)); taken > most {
			t.Fatalf("%d bytes of %s took %d bytes, the maximum is %d", len(data), s, taken, most)
		}
		if err == nil {
			must.Get(json.Marshal(args))(t)
		}
	})
}

// join makes words. A number may take the first bytes of one: it is shifted there.
func join(words ...any) (data []byte) {
	for _, w := range words {
		n, ok := w.(*big.Int)
		if !ok {
			n = big.NewInt(int64(w.(int)))
		}
		data = append(data, common.BigToHash(n).Bytes()...)
	}
	return data
}

func shifted(b int64) *big.Int { return new(big.Int).Lsh(big.NewInt(b), 248) }

// TestDecodeBomb reads logs that say far more than they have bytes.
func TestDecodeBomb(t *testing.T) {
	const n = 3800
	one := make([]byte, 920_000)
	copy(one, join(32, n))
	for i := range n { // all offsets lead to one element, which has nearly all of the rest
		copy(one[64+32*i:], join(32*n))
	}
	copy(one[64+32*n:], join(len(one)-64-32*n-32))
	nested := join(32, n)
	for range n {
		nested = append(nested, join(32*n)...)
	}
	nested = append(nested, join(n)...)
	for range n {
		nested = append(nested, join(32*n)...)
	}
	nested = append(nested, join(1, 7)...)
	for text, data := range map[string][]byte{"E(bytes[] a)": one, "E(uint256[][][] a)": nested, "E(string[] a, bool b)": one} {
		s := parse(t, text)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := s.Decode([]common.Hash{s.Selector}, data)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, decode.ErrMismatch) {
			t.Errorf("%s: %v", text, err)
		}
		if taken := after.TotalAlloc - before.TotalAlloc; taken > uint64(16*len(data)) {
			t.Errorf("%s: %d bytes took %d", text, len(data), taken)
		}
	}
}

// TestIndexedIsNotGuessed reads logs that fit a signature without marks in several ways.
func TestIndexedIsNotGuessed(t *testing.T) {
	for name, c := range map[string]struct {
		signature string
		topic     common.Hash
		data      []byte
	}{
		"two numbers":                  {"E(uint256,uint256)", common.Hash{31: 1}, join(2)},
		"an address of Hedera's form":  {"E(address,uint256)", common.Hash{30: 4, 31: 0xd2}, join(2)},
		"two addresses":                {"E(address,address)", word(alice), join(new(big.Int).SetBytes(alice[:]))},
		"an amount of a whole address": {"E(address,uint256)", word(alice), join(new(big.Int).Lsh(big.NewInt(1), 158))},
	} {
		s := parse(t, c.signature)
		if v, err := s.Decode([]common.Hash{s.Selector, c.topic}, c.data); !errors.Is(err, decode.ErrAmbiguous) {
			t.Errorf("%s: %v, %v", name, v.Args, err)
		}
	}
}

// TestBytesThatAreNoText keeps them beside what can be shown.
func TestBytesThatAreNoText(t *testing.T) {
	s := parse(t, "E((string note)[] list)")
	data := join(32, 1, 32, 32, 5)
	v, err := s.Decode([]common.Hash{s.Selector}, append(data, "a\x00\xe2\x82\xff"...))
	if err != nil || encode(t, v.Args) != "{\"list\":[{\"note\":\"a\\u0000\ufffd\ufffd\"}]}" || encode(t, v.Hex) != `{"list[0].note":"0x6100e282ff"}` {
		t.Errorf("%s %s %v", encode(t, v.Args), encode(t, v.Hex), err)
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	text := must.Get(json.Marshal(v))(t)
	return string(text)
}

// TestReadABI leaves out what has no signature, and refuses types without an end before anything is made of them.
func TestReadABI(t *testing.T) {
	deep := strings.Repeat(`{"name":"a","type":"tuple","components":[`, 3000) + strings.Repeat(`]}`, 3000)
	all, err := decode.ReadABI([]byte(`{"abi":[{"type":"constructor"},{"type":"event","name":"Secret","anonymous":true,"inputs":[]},
		{"type":"event","name":"Made","inputs":[{"name":"","type":"tuple[2]","components":[{"name":"n","type":"uint"},{"name":"m","type":"string"}]},{"name":"b","type":"bool","indexed":true}]},
		{"type":"function","name":"lists","inputs":[{"name":"a","type":"uint8` + strings.Repeat("[1]", 20_000) + `"}]},
		{"type":"function","name":"wide","inputs":[{"name":"a","type":"uint8[100000000][100000000]"}]},
		{"type":"error","name":"Deep","inputs":[` + deep + `]}]}`))
	if err != nil || len(all.Events) != 1 || all.Events[0].String() != "Made((uint256,string)[2],bool)" || len(all.Functions) != 0 {
		t.Fatal(all, err)
	}
	for _, name := range []string{"Secret", "lists", "wide", "Deep"} {
		if all.Unread[name] == nil && name != "Secret" {
			t.Error(name)
		}
	}
}
