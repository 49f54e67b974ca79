package decode

import (
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

// The data of a call is what go-ethereum's own encoder makes of the same values.
func TestCallData(t *testing.T) {
	event, err := Parse("Asked(address indexed who, uint256 amount, int64 change, bool final, bytes4 code, string note, uint8 small)")
	if err != nil {
		t.Fatal(err)
	}
	call, err := NewCall("settle(bool,address,int64,uint256,bytes4,uint8)", []string{"final", "who", "change", "amount", "code", "small"}, event)
	if err != nil {
		t.Fatal(err)
	}
	reference, err := abi.JSON(strings.NewReader(`[{"type":"function","name":"settle","inputs":[{"type":"bool"},{"type":"address"},{"type":"int64"},{"type":"uint256"},{"type":"bytes4"},{"type":"uint8"}]}]`))
	if err != nil {
		t.Fatal(err)
	}
	amount, _ := new(big.Int).SetString("115792089237316195423570985008687907853269984665640564039457584007913129639935", 10)
	who := common.HexToAddress("0x05FbA803Be258049A27B820088bab1cAD2058871")
	want, err := reference.Pack("settle", true, who, int64(-7), amount, [4]byte{1, 2, 3, 4}, uint8(9))
	if err != nil {
		t.Fatal(err)
	}
	got, err := call.Data([]byte(`{"who":"` + who.Hex() + `","amount":"` + amount.String() + `","change":"-7","final":true,"code":"0x01020304","note":"x","small":9}`))
	if err != nil || hexutil.Encode(got) != hexutil.Encode(want) {
		t.Errorf("%x, want %x, %v", got, want, err)
	}
	for name, args := range map[string]string{
		"no address":     `{"who":"x","amount":"1","change":1,"final":true,"code":"0x01020304","small":9}`,
		"no number":      `{"who":"` + who.Hex() + `","amount":"x","change":1,"final":true,"code":"0x01020304","small":9}`,
		"no truth value": `{"who":"` + who.Hex() + `","amount":"1","change":1,"final":"true","code":"0x01020304","small":9}`,
		"wrong length":   `{"who":"` + who.Hex() + `","amount":"1","change":1,"final":true,"code":"0x0102","small":9}`,
		"nothing":        `{}`,
	} {
		if data, err := call.Data([]byte(args)); err == nil {
			t.Errorf("%s: %x", name, data)
		}
	}
	for _, bad := range []struct {
		function string
		args     []string
	}{{"settle(address)", nil}, {"settle(address)", []string{"amount"}}, {"settle(string)", []string{"note"}}, {"settle(address)", []string{"nobody"}}, {"settle", nil}} {
		if _, err := NewCall(bad.function, bad.args, event); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}
