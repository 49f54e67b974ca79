package sysabi

import (
	"bytes"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/must"
)

// token is the structure that creates a token.
const token = "(string,string,address,string,bool,int64,bool,(uint256,(bool,address,bytes,bytes,address))[],(int64,address,int64),bytes)"

// TestLikeGoEthereum: what is written here is what go-ethereum writes of the same, and reads back as it was.
func TestLikeGoEthereum(t *testing.T) {
	type pair struct {
		To     common.Address
		Amount int64
	}
	at := common.HexToAddress("0x00000000000000000000000000000000000004d2")
	tuple := []abi.ArgumentMarshaling{{Name: "to", Type: "address"}, {Name: "amount", Type: "int64"}}
	var theirs abi.Arguments
	for _, in := range []abi.ArgumentMarshaling{
		{Type: "address"}, {Type: "bool"}, {Type: "int64"}, {Type: "string"}, {Type: "bytes"}, {Type: "int64[]"}, {Type: "uint256"}, {Type: "tuple[]", Components: tuple},
	} {
		typ := must.Get(abi.NewType(in.Type, "", in.Components))(t)
		theirs = append(theirs, abi.Argument{Type: typ})
	}
	long := bytes.Repeat([]byte{7}, 33)
	want := must.Get(theirs.Pack(at, true, int64(-5), "text", long, []int64{1, math.MinInt64}, big.NewInt(9), []pair{{at, -1}, {at, 1}}))(t)
	ours := ParseTypes("address,bool,int64,string,bytes,int64[],uint256,(address,int64)[]")
	got := Encode(ours, []Value{
		Address(at), Bool(true), Int(-5), Text("text"), Bytes(long), List(Int(1), Int(math.MinInt64)), Int(9), List(List(Address(at), Int(-1)), List(Address(at), Int(1))),
	})
	if !bytes.Equal(got, want) {
		t.Fatalf("%x\n%x", got, want)
	}
	v, ok := Decode(ours, want)
	if !ok {
		t.Fatal("does not decode")
	}
	if v[0].Address() != at || !v[1].Bool() || v[2].Int64() != -5 || v[3].Text() != "text" || !bytes.Equal(v[4].Data, long) ||
		!slices.Equal(v[5].Int64s(), []int64{1, math.MinInt64}) || v[6].Uint256().Uint64() != 9 || v[7].List[0].List[1].Int64() != -1 {
		t.Errorf("%+v", v)
	}
	if huge := (Value{Word: common.Hash{1}}); huge.Int64() != math.MaxInt64 {
		t.Errorf("%d", huge.Int64())
	}
}

// What is encoded decodes to the same, and what is not encoded ends without harm.
func FuzzABI(f *testing.F) {
	types := ParseTypes(token + ",uint64,(address,(address,int64,bool)[],(address,address,int64,bool)[])[],bytes[],string")
	zero := make([]Value, len(types))
	for i := range types {
		zero[i] = Zero(&types[i])
	}
	f.Add(Encode(types, zero))
	f.Add([]byte{})
	// An array that contains itself many times over.
	f.Add(slices.Repeat(Word(32).Bytes(), 40))
	f.Fuzz(func(t *testing.T, data []byte) {
		values, ok := Decode(types, data)
		if !ok {
			return
		}
		encoded := Encode(types, values)
		again, ok := Decode(types, encoded)
		if !ok || string(Encode(types, again)) != string(encoded) {
			t.Errorf("%x does not come back", data)
		}
	})
}
