package precheck_test

import (
	"encoding/hex"
	"errors"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/precheck"
)

var (
	key, _ = crypto.HexToECDSA("105d050185ccb907fba04dd92d8de9e32c18305e097ab41dadda21489a211524")
	to     = common.HexToAddress("0x05FbA803Be258049A27B820088bab1cAD2058871")
	chain  = big.NewInt(298)
	price  = big.NewInt(710_000_000_000)
	rules  = precheck.Rules{
		ChainID: 298,
		Config: precheck.Config{
			CallDataSizeLimit: 131072, TransactionSizeLimit: 133120, MaxGasLimit: 15_000_000, GasPriceTolerance: 10_000_000_000,
		},
	}
)

func sign(t *testing.T, data types.TxData) *eth.Tx {
	t.Helper()
	id := chain
	if typed := types.NewTx(data); typed.Type() != types.LegacyTxType {
		id = typed.ChainId()
	}
	signer := types.Signer(eth.AnyChain{})
	if id.Sign() > 0 {
		signer = types.LatestSignerForChainID(id)
	}
	raw, err := types.MustSignNewTx(key, signer, data).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	tx, err := eth.DecodeTx(raw)
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

// transfer is a valid transaction; a test changes what it is about.
func transfer(change func(*types.DynamicFeeTx)) *types.DynamicFeeTx {
	data := &types.DynamicFeeTx{ChainID: chain, Nonce: 5, Gas: 21000, GasFeeCap: price, To: &to, Value: big.NewInt(1e10)}
	if change != nil {
		change(data)
	}
	return data
}

func setCode(change func(*types.SetCodeTx)) *types.SetCodeTx {
	data := &types.SetCodeTx{
		ChainID: uint256.NewInt(298), Gas: 100_000, GasFeeCap: uint256.MustFromBig(price), To: to,
		AuthList: []types.SetCodeAuthorization{{Address: to}},
	}
	if change != nil {
		change(data)
	}
	return data
}

// want is the error a check must give; the zero value means none.
type want struct {
	code    int
	message string
}

func (w want) check(t *testing.T, err error) {
	t.Helper()
	if w == (want{}) {
		if err != nil {
			t.Errorf("unexpected error: %v", err)
		}
		return
	}
	var client *eth.Error
	if !errors.As(err, &client) {
		t.Fatalf("error %v, want %d %q", err, w.code, w.message)
	}
	if client.Code != w.code || client.Message != w.message {
		t.Errorf("error %d %q, want %d %q", client.Code, client.Message, w.code, w.message)
	}
}

func TestStateless(t *testing.T) {
	allowSetCode := rules
	allowSetCode.AllowSetCode = true
	tests := map[string]struct {
		data  types.TxData
		rules precheck.Rules
		want  want
	}{
		"transfer":    {transfer(nil), rules, want{}},
		"legacy":      {&types.LegacyTx{Gas: 21000, GasPrice: price, To: &to}, rules, want{}},
		"access list": {&types.AccessListTx{ChainID: chain, Gas: 21000, GasPrice: price, To: &to}, rules, want{}},
		"creation":    {transfer(func(d *types.DynamicFeeTx) { d.To, d.Gas, d.Data = nil, 100_000, []byte{1} }), rules, want{}},
		"call data too long": {
			transfer(func(d *types.DynamicFeeTx) { d.Gas, d.Data = 15_000_000, make([]byte, 131073) }),
			rules,
			want{-32201, "Oversized data: call data size 131073, call data size limit 131072"},
		},
		"initcode too long": {
			transfer(func(d *types.DynamicFeeTx) { d.To, d.Gas, d.Data = nil, 15_000_000, make([]byte, 49153) }),
			rules,
			want{-32201, "Oversized data: initcode size 49153, initcode size limit 49152"},
		},
		"transaction too long": {
			transfer(func(d *types.DynamicFeeTx) {
				d.Gas, d.AccessList = 15_000_000, types.AccessList{{StorageKeys: make([]common.Hash, 4100)}}
			}),
			rules,
			want{-32201, "Oversized data: transaction size 135448, transaction limit 133120"},
		},
		"blob": {
			&types.BlobTx{ChainID: uint256.NewInt(298), Gas: 21000, To: to, BlobHashes: []common.Hash{{1}}},
			rules,
			want{-32611, "Unsupported transaction type: txType=3"},
		},
		"set code switched off": {setCode(nil), rules, want{-32611, "Unsupported transaction type: txType=4"}},
		"set code switched on":  {setCode(nil), allowSetCode, want{}},
		"empty authorization list": {
			setCode(func(d *types.SetCodeTx) { d.AuthList = nil }),
			allowSetCode,
			want{-32602, "Invalid parameter authorizationList: EIP-7702 transaction with empty auth list"},
		},
		"gas limit too high": {
			transfer(func(d *types.DynamicFeeTx) { d.Gas = 15_000_001 }),
			rules,
			want{-32005, "Transaction gas limit '15000001' exceeds max gas per sec limit '15000000'"},
		},
		"gas limit too low": {
			transfer(func(d *types.DynamicFeeTx) { d.Gas = 20_999 }),
			rules,
			want{-32003, "Transaction gas limit provided '20999' is insufficient of intrinsic gas required '21000'"},
		},
		"other chain": {
			transfer(func(d *types.DynamicFeeTx) { d.ChainID = big.NewInt(1) }),
			rules,
			want{-32000, "ChainId (0x1) not supported. The correct chainId is 0x12a"},
		},
		"value below a tinybar": {
			transfer(func(d *types.DynamicFeeTx) { d.Value = big.NewInt(9_999_999_999) }),
			rules,
			want{-32602, "Value can't be non-zero and less than 10_000_000_000 wei which is 1 tinybar"},
		},
		"value 0": {transfer(func(d *types.DynamicFeeTx) { d.Value = new(big.Int) }), rules, want{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.want.check(t, precheck.Stateless(sign(t, test.data), test.rules))
		})
	}
}

// A transaction that is wrong in several ways shows the first of them, in this order.
func TestStatelessOrder(t *testing.T) {
	typed := rules
	typed.AllowSetCode = true
	wrong := func(change func(*types.DynamicFeeTx)) *types.DynamicFeeTx {
		return transfer(func(d *types.DynamicFeeTx) {
			d.To, d.Gas, d.ChainID, d.Value = nil, 15_000_001, big.NewInt(1), common.Big1
			change(d)
		})
	}
	for _, test := range []struct {
		data types.TxData
		want string
	}{
		{wrong(func(d *types.DynamicFeeTx) { d.Data = make([]byte, 131_073) }), "Oversized data: call data size 131073, call data size limit 131072"},
		{wrong(func(d *types.DynamicFeeTx) {
			d.Data, d.AccessList = make([]byte, 49_153), types.AccessList{{StorageKeys: make([]common.Hash, 4100)}}
		}), "Oversized data: initcode size 49153, initcode size limit 49152"},
		{&types.BlobTx{ChainID: uint256.NewInt(1), Gas: 20_000_000, To: to, AccessList: types.AccessList{{StorageKeys: make([]common.Hash, 4100)}}}, "Oversized data: transaction size 135439, transaction limit 133120"},
		{&types.BlobTx{ChainID: uint256.NewInt(1), Gas: 20_000_000, To: to}, "Unsupported transaction type: txType=3"},
		{wrong(func(*types.DynamicFeeTx) {}), "Transaction gas limit '15000001' exceeds max gas per sec limit '15000000'"},
		{wrong(func(d *types.DynamicFeeTx) { d.Gas = 1 }), "Transaction gas limit provided '1' is insufficient of intrinsic gas required '53000'"},
		{wrong(func(d *types.DynamicFeeTx) { d.Gas = 53_000 }), "ChainId (0x1) not supported. The correct chainId is 0x12a"},
		{setCode(func(d *types.SetCodeTx) { d.Value, d.AuthList = uint256.NewInt(1), nil }), "Value can't be non-zero and less than 10_000_000_000 wei which is 1 tinybar"},
		{setCode(func(d *types.SetCodeTx) { d.AuthList = nil }), "Invalid parameter authorizationList: EIP-7702 transaction with empty auth list"},
	} {
		if err := precheck.Stateless(sign(t, test.data), typed); err == nil || err.Error() != test.want {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
}

// keyless is the raw transaction of the widely used deterministic deployment
// proxy: unprotected, and offering 100 gwei, far below the network's price.
const keyless = "f8a58085174876e800830186a08080b853604580600e600039806000f350fe7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe03601600081602082378035828234f58015156039578182fd5b8082525050506014600cf31ba02222222222222222222222222222222222222222222222222222222222222222a02222222222222222222222222222222222222222222222222222222222222222"

func TestKeylessDeployment(t *testing.T) {
	raw, err := hex.DecodeString(keyless)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := eth.DecodeTx(raw)
	if err != nil {
		t.Fatal(err)
	}
	if want := common.HexToAddress("0x3fab184622dc19b6109349b94811493bf2a45362"); tx.From() != want {
		t.Errorf("sender %s, want %s", tx.From(), want)
	}
	want{}.check(t, precheck.Stateless(tx, rules))
	want{}.check(t, precheck.Stateful(tx, rules, precheck.Facts{Balance: 100 * hedera.Hbar, GasPrice: price}))
}

// What ethers signs when it is given a gas price and no chain id passes on any chain.
func TestTypedTransactionForChainZeroPasses(t *testing.T) {
	for name, data := range map[string]types.TxData{
		"type 1": &types.AccessListTx{ChainID: new(big.Int), Gas: 21000, GasPrice: price, To: &to},
		"type 2": transfer(func(d *types.DynamicFeeTx) { d.ChainID = new(big.Int) }),
	} {
		if err := precheck.Stateless(sign(t, data), rules); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNonce(t *testing.T) {
	tx := sign(t, transfer(nil)) // nonce 5
	want{}.check(t, precheck.Nonce(tx, 5, true))
	want{-32000, "Nonce too low. Provided nonce: 5, current nonce: 6"}.check(t, precheck.Nonce(tx, 6, false))
	want{-32000, "Nonce too high. Provided nonce: 5, current nonce: 4"}.check(t, precheck.Nonce(tx, 4, true))
	want{}.check(t, precheck.Nonce(tx, 4, false)) // the mirror node may lag: the network decides
}

func TestStateful(t *testing.T) {
	offer := func(weibar int64) *types.DynamicFeeTx {
		return transfer(func(d *types.DynamicFeeTx) { d.GasFeeCap, d.GasTipCap = big.NewInt(weibar), big.NewInt(weibar) })
	}
	const cost = 71*21000 + 1 // of transfer, in tinybar
	rich := precheck.Facts{Balance: hedera.Hbar, GasPrice: price}
	tests := map[string]struct {
		data  types.TxData
		facts precheck.Facts
		want  want
	}{
		"exactly enough":      {transfer(nil), precheck.Facts{Balance: cost, GasPrice: price}, want{}},
		"one tinybar short":   {transfer(nil), precheck.Facts{Balance: cost - 1, GasPrice: price}, want{-32000, "Insufficient funds for transfer"}},
		"price in tolerance":  {offer(700_000_000_000), rich, want{}},
		"price too low":       {offer(699_999_999_999), rich, want{-32009, "Gas price '699999999999' is below configured minimum gas price '710000000000'"}},
		"price subsidised":    {offer(0), precheck.Facts{Balance: hedera.Hbar, GasPrice: price, GasPriceSubsidised: true}, want{}},
		"receiver must sign":  {transfer(nil), precheck.Facts{Balance: hedera.Hbar, GasPrice: price, ReceiverMustSign: true}, want{-32000, "Operation is not supported when receiver's signature is enabled."}},
		"balance comes first": {offer(1), precheck.Facts{GasPrice: price, ReceiverMustSign: true}, want{-32000, "Insufficient funds for transfer"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.want.check(t, precheck.Stateful(sign(t, test.data), rules, test.facts))
		})
	}
}

// Call data goes into a file only when transactions may not carry it, and only if the
// transaction has a form without it.
func TestInFile(t *testing.T) {
	files := rules
	files.FileChunkSize, files.FileMaxChunks = 100, 3
	jumbo := files
	jumbo.Jumbo = true
	data := make([]byte, 101)
	call := func(change func(*types.DynamicFeeTx)) *types.DynamicFeeTx {
		return transfer(func(d *types.DynamicFeeTx) {
			d.Gas, d.Data = 100_000, data
			if change != nil {
				change(d)
			}
		})
	}
	for name, test := range map[string]struct {
		data  types.TxData
		rules precheck.Rules
		want  bool
	}{
		"long":             {call(nil), files, true},
		"creation":         {call(func(d *types.DynamicFeeTx) { d.To = nil }), files, true},
		"just short":       {call(func(d *types.DynamicFeeTx) { d.Data = data[1:] }), files, false},
		"jumbo":            {call(nil), jumbo, false},
		"with access list": {call(func(d *types.DynamicFeeTx) { d.AccessList = types.AccessList{{Address: to}} }), files, false},
		"set code":         {setCode(func(d *types.SetCodeTx) { d.Data = data }), files, false},
	} {
		if got := test.rules.InFile(sign(t, test.data)); got != test.want {
			t.Errorf("%s: in a file %v", name, got)
		}
	}
	long := func(n int) *eth.Tx {
		return sign(t, call(func(d *types.DynamicFeeTx) { d.Gas, d.Data = 1_000_000, make([]byte, n) }))
	}
	want{}.check(t, precheck.Stateless(long(200), files)) // 400 digits: one piece and three more
	want{-32201, "Oversized data: call data size 201, call data size limit 200"}.check(t, precheck.Stateless(long(201), files))
	want{}.check(t, precheck.Stateless(long(201), jumbo))
}
