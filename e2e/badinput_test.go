package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"
)

// The codes that clients tell these errors apart by.
const (
	codeServer         = -32000
	codeNotFound       = -32001
	codeRejected       = -32003
	codeGasTooHigh     = -32005
	codeGasPriceTooLow = -32009
	codeOversized      = -32201
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
	codeInvalidParams  = -32602
	codeTxType         = -32611
	codeParse          = -32700
)

// dialect is what the two response profiles differ in.
type dialect struct {
	profile    string
	callStatus int    // HTTP status of a well-formed call that failed
	prefix     string // of every message
	scalar     int    // code for a body that is JSON, but neither object nor array
	tooLong    int    // HTTP status of a body over the size limit
	// words are messages of established relays and what Ethereum nodes say instead, as
	// far as they do.
	words map[string]string
}

var dialects = []dialect{
	{profile: "ethereum", callStatus: 200, prefix: "", scalar: codeInvalidRequest, tooLong: 413, words: ethereumWords()},
	{profile: "hiero", callStatus: 400, prefix: "[Request ID: ", scalar: codeParse, tooLong: 400},
}

func ethereumWords() map[string]string {
	return map[string]string{
		"Method eth_noSuchMethod not found":                                                        "the method eth_noSuchMethod does not exist/is not available",
		"not found":                                                                                "does not exist/is not available",
		"Missing value for required parameter 0":                                                   "missing value for required argument 0",
		"Invalid parameter 0: The value passed is not valid: null.":                                "missing value for required argument 0",
		"Invalid parameter 0":                                                                      "invalid argument 0",
		"Invalid params":                                                                           "too many arguments, want at most 1",
		"Unsupported transaction type: txType=3":                                                   "transaction type not supported: type 3",
		"Unsupported transaction type: txType=4":                                                   "transaction type not supported: type 4",
		"ChainId (0x1) not supported. The correct chainId is 0x12a":                                "invalid chain id for signer: have 1 want 298",
		"Oversized data: call data size 131073, call data size limit 131072":                       "oversized data: call data size 131073, limit 131072",
		"Oversized data: initcode size 49153, initcode size limit 49152":                           "max initcode size exceeded: code size 49153, limit 49152",
		"Transaction gas limit '15000001' exceeds max gas per sec limit '15000000'":                "exceeds block gas limit: gas 15000001, maximum 15000000",
		"Transaction gas limit provided '20999' is insufficient of intrinsic gas required '21000'": "intrinsic gas too low: gas 20999, minimum needed 21000",
		"Gas price '1000000000' is below configured minimum gas price '710000000000'":              "max fee per gas less than block base fee: maxFeePerGas: 1000000000, baseFee: 710000000000",
		"Insufficient funds for transfer":                                                          "insufficient funds for gas * price + value",
		"Nonce too low. Provided nonce: 0, current nonce: 1":                                       "nonce too low: next nonce 1, tx nonce 0",
		"Nonce too high. Provided nonce: 9, current nonce: 1":                                      "nonce too high: next nonce 1, tx nonce 9",
	}
}

// TestBadInput sends what no library would send, to a relay of each profile. It
// must answer each with the documented error, and be there for the next one.
func TestBadInput(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		t.Run(d.profile, func(t *testing.T) {
			t.Parallel()
			n := startDev(t, []string{"RELAY_PROFILE=" + d.profile, "NONCE_GAP_HOLD_MS=0", "INPUT_SIZE_LIMIT=1"})
			t.Run("bodies", func(t *testing.T) { badBodies(t, n, d) })
			t.Run("calls", func(t *testing.T) { badCalls(t, n, d) })
			t.Run("transactions", func(t *testing.T) { badTransactions(t, n, d) })
		})
	}
}

// badBodies are not JSON-RPC calls at all.
func badBodies(t *testing.T, n *network, d dialect) {
	cases := []struct {
		name, body string
		status     int
		code       int
		id         string
	}{
		{"not JSON", `{"jsonrpc":"2.0","id":1,`, 400, codeParse, "null"},
		{"binary", "\x00\x01\xff\xfe", 400, codeParse, "null"},
		{"a lone string", `"eth_chainId"`, 400, d.scalar, "null"},
		{"over the size limit", `{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":["` + strings.Repeat("a", 1<<20) + `"]}`, d.tooLong, codeParse, "null"},
		{"deep nesting", strings.Repeat("[", 100_000), 400, codeParse, "null"},
		{"empty object", `{}`, 400, codeInvalidRequest, "null"},
		{"old version", `{"jsonrpc":"1.0","id":5,"method":"eth_chainId","params":[]}`, 400, codeInvalidRequest, "5"},
		{"no method", `{"jsonrpc":"2.0","id":5,"params":[]}`, 400, codeInvalidRequest, "5"},
		{"a number for a method", `{"jsonrpc":"2.0","id":"five","method":5}`, 400, codeInvalidRequest, `"five"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			status, body := postUntilAnswered(t, n.RPC, c.body)
			got := parseReply(t, body)
			expect(t, status, c.status)
			expect(t, string(got.ID), c.id)
			wantError(t, got, d, c.code, "")
			checkAlive(t, n)
		})
	}
	t.Run("GET", func(t *testing.T) {
		status, _ := get(t, n.RPC)
		expect(t, status, http.StatusMethodNotAllowed)
	})
}

// postUntilAnswered posts a body that the relay need not read to its end. The relay closes such a connection soon
// after it has answered, and the answer is lost on a client that is too slow to read it by then: it asks again.
func postUntilAnswered(t *testing.T, url, body string) (status int, answer []byte) {
	t.Helper()
	until(t, "an answer", func() bool {
		response, err := http.Post(url, "application/json", strings.NewReader(body))
		if err != nil {
			t.Log(err)
			return false
		}
		defer response.Body.Close()
		status = response.StatusCode
		answer, err = io.ReadAll(response.Body)
		return err == nil
	})
	return status, bytes.TrimSpace(answer)
}

// badCalls are calls with a wrong method or wrong parameters.
func badCalls(t *testing.T, n *network, d dialect) {
	cases := []struct {
		name, method, params string
		code                 int
		message              string
	}{
		{"unknown method", "eth_noSuchMethod", `[]`, codeNoMethod, "Method eth_noSuchMethod not found"},
		{"wrong case", "ETH_CHAINID", `[]`, codeNoMethod, "not found"},
		{"engine", "engine_newPayloadV3", `[]`, codeNoMethod, "Unsupported JSON-RPC method"},
		{"no raw transaction", "eth_sendRawTransaction", `[]`, codeInvalidParams, "Missing value for required parameter 0"},
		{"params null", "eth_sendRawTransaction", `null`, codeInvalidParams, ""},
		{"null parameter", "eth_sendRawTransaction", `[null]`, codeInvalidParams, "Invalid parameter 0: The value passed is not valid: null."},
		{"too many", "eth_sendRawTransaction", `["0x00","0x00"]`, codeInvalidParams, "Invalid params"},
		{"an object for params", "eth_getBalance", `{"address":"0x00"}`, codeInvalidParams, "Missing value for required parameter 0"},
		{"no address", "eth_getBalance", `[]`, codeInvalidParams, "Missing value for required parameter 0"},
		{"short address", "eth_getBalance", `["0x1234","latest"]`, codeInvalidParams, "representing the address (20 bytes)"},
		{"block as a boolean", "eth_getBlockByNumber", `[true,false]`, codeInvalidParams, "Invalid parameter 0"},
		{"bool as a string", "eth_getBlockByNumber", `["latest","true"]`, codeInvalidParams, "Expected boolean type"},
		{"short hash", "eth_getTransactionReceipt", `["0xabcd"]`, codeInvalidParams, "Invalid parameter 0"},
		{"a string for a call", "eth_call", `["0x","latest"]`, codeInvalidParams, "Expected TransactionObject"},
		{"unknown filter field", "eth_getLogs", `[{"from":"0x0"}]`, codeInvalidParams, "Unknown parameter"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			refused(t, n, d, c.method, c.params, c.code, c.message)
			checkAlive(t, n)
		})
	}
	t.Run("in a batch", func(t *testing.T) {
		status, body := post(t, n.RPC, `[{"jsonrpc":"2.0","id":1,"method":"eth_chainId"},5,{"jsonrpc":"2.0","id":3,"method":"eth_noSuchMethod"}]`)
		expect(t, status, http.StatusOK)
		replies := parseBatch(t, body)
		if len(replies) != 3 {
			t.Fatalf("%d answers: %s", len(replies), body)
		}
		expect(t, string(replies[0].Result), `"0x12a"`)
		wantError(t, replies[1], d, codeInvalidRequest, "")
		wantError(t, replies[2], d, codeNoMethod, "Method eth_noSuchMethod not found")
	})
}

// badTransactions decode as hex, and are refused for what they hold.
func badTransactions(t *testing.T, n *network, d dialect) {
	key := n.Accounts[0].key(t)
	// with gives a good transaction with one thing changed.
	with := func(change func(*types.DynamicFeeTx)) string {
		to := n.Accounts[1].address()
		tx := &types.DynamicFeeTx{ChainID: big.NewInt(chainID), GasFeeCap: big.NewInt(1e12), GasTipCap: new(big.Int), Gas: 21_000, To: &to}
		change(tx)
		return signed(t, key, tx.ChainID, tx)
	}
	chain := big.NewInt(chainID)
	price, to := uint256.NewInt(1e12), n.Accounts[1].address()
	cases := []struct {
		name, raw string
		code      int
		message   string
	}{
		{"garbage", "0xzz", codeInvalidParams, "Expected 0x prefixed hexadecimal value"},
		{"no prefix", "f86c", codeInvalidParams, "Expected 0x prefixed hexadecimal value"},
		{"empty", "0x", codeServer, "Invalid arguments: "},
		{"odd digits", "0x02f", codeServer, "Invalid arguments: "},
		{"noise", "0xdeadbeefdeadbeef", codeServer, "Invalid arguments: "},
		{"cut off", with(func(*types.DynamicFeeTx) {})[:90], codeServer, "Invalid arguments: "},
		{"unknown type", "0x05" + with(func(*types.DynamicFeeTx) {})[4:], codeServer, "Invalid arguments: "},
		{
			"blob", signed(t, key, chain, &types.BlobTx{ChainID: uint256.NewInt(chainID), GasFeeCap: price, GasTipCap: price, Gas: 21_000, To: to, BlobFeeCap: price, BlobHashes: []common.Hash{{1}}}),
			codeTxType, "Unsupported transaction type: txType=3",
		},
		{
			"set code", signed(t, key, chain, &types.SetCodeTx{ChainID: uint256.NewInt(chainID), GasFeeCap: price, GasTipCap: price, Gas: 60_000, To: to, AuthList: []types.SetCodeAuthorization{{Address: to}}}),
			codeTxType, "Unsupported transaction type: txType=4",
		},
		{"other chain", with(func(tx *types.DynamicFeeTx) { tx.ChainID = big.NewInt(1) }), codeServer, "ChainId (0x1) not supported. The correct chainId is 0x12a"},
		{
			"too much call data", with(func(tx *types.DynamicFeeTx) { tx.Data, tx.Gas = make([]byte, 131_073), 15_000_000 }),
			codeOversized, "Oversized data: call data size 131073, call data size limit 131072",
		},
		{
			"too much init code", with(func(tx *types.DynamicFeeTx) { tx.Data, tx.To, tx.Gas = make([]byte, 49_153), nil, 15_000_000 }),
			codeOversized, "Oversized data: initcode size 49153, initcode size limit 49152",
		},
		{"too much gas", with(func(tx *types.DynamicFeeTx) { tx.Gas = 15_000_001 }), codeGasTooHigh, "Transaction gas limit '15000001' exceeds max gas per sec limit '15000000'"},
		{
			"too little gas", with(func(tx *types.DynamicFeeTx) { tx.Gas = 20_999 }),
			codeRejected, "Transaction gas limit provided '20999' is insufficient of intrinsic gas required '21000'",
		},
		{
			"less than a tinybar", with(func(tx *types.DynamicFeeTx) { tx.Value = big.NewInt(9_999_999_999) }),
			codeInvalidParams, "Value can't be non-zero and less than 10_000_000_000 wei which is 1 tinybar",
		},
		{"cheap", with(func(tx *types.DynamicFeeTx) { tx.GasFeeCap = big.NewInt(1e9) }), codeGasPriceTooLow, "Gas price '1000000000' is below configured minimum gas price '710000000000'"},
		{
			"more than there is", with(func(tx *types.DynamicFeeTx) { tx.Value = new(big.Int).Lsh(big.NewInt(1), 100) }),
			codeServer, "Insufficient funds for transfer",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			refusedRaw(t, n, d, c.raw, c.code, c.message)
			checkAlive(t, n)
		})
	}
	t.Run("unknown sender", func(t *testing.T) {
		stranger, err := crypto.GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		address := crypto.PubkeyToAddress(stranger.PublicKey)
		raw := signed(t, stranger, chain, &types.DynamicFeeTx{ChainID: chain, GasFeeCap: big.NewInt(1e12), Gas: 21_000, To: &address})
		refusedRaw(t, n, d, raw, codeNotFound, "Requested resource not found. address '"+address.Hex()+"'.")
	})
	t.Run("nonces", func(t *testing.T) {
		good := with(func(*types.DynamicFeeTx) {})
		if got := call(t, n.RPC, "eth_sendRawTransaction", fmt.Sprintf(`[%q]`, good)); got.Error != nil {
			t.Fatalf("the good transaction was refused: %v", got.Error)
		}
		low := with(func(tx *types.DynamicFeeTx) { tx.Value = big.NewInt(1e10) })
		refusedRaw(t, n, d, low, codeServer, "Nonce too low. Provided nonce: 0, current nonce: 1")
		high := with(func(tx *types.DynamicFeeTx) { tx.Nonce = 9 })
		refusedRaw(t, n, d, high, codeServer, "Nonce too high. Provided nonce: 9, current nonce: 1")
	})
}

func signed(t *testing.T, key *ecdsa.PrivateKey, chain *big.Int, data types.TxData) string {
	t.Helper()
	raw, err := types.MustSignNewTx(key, types.LatestSignerForChainID(chain), data).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return hexutil.Encode(raw)
}

func refusedRaw(t *testing.T, n *network, d dialect, raw string, code int, message string) {
	t.Helper()
	refused(t, n, d, "eth_sendRawTransaction", fmt.Sprintf(`[%q]`, raw), code, message)
}

// refused makes a well-formed request and wants this error.
func refused(t *testing.T, n *network, d dialect, method, params string, code int, message string) {
	t.Helper()
	status, body := post(t, n.RPC, request(method, params))
	expect(t, status, d.callStatus)
	got := parseReply(t, body)
	expect(t, string(got.ID), "7")
	wantError(t, got, d, code, message)
}

// wantError fails unless the answer is this error. An empty message stands for any.
func wantError(t *testing.T, got reply, d dialect, code int, message string) {
	t.Helper()
	if got.Error == nil {
		t.Fatalf("got the result %s, want error %d %s", got.Result, code, message)
	}
	if own, ok := d.words[message]; ok {
		message = own
	}
	text, prefixed := strings.CutPrefix(got.Error.Message, d.prefix)
	if d.prefix != "" && prefixed {
		_, text, _ = strings.Cut(text, "] ")
	}
	if got.Error.Code != code || !prefixed || !strings.Contains(text, message) {
		t.Errorf("got error %v\nwant error %d %s%s", got.Error, code, d.prefix, message)
	}
}

// checkAlive makes one good call.
func checkAlive(t *testing.T, n *network) {
	t.Helper()
	if got := call(t, n.RPC, "eth_chainId", `[]`); string(got.Result) != `"0x12a"` {
		t.Fatalf("afterwards eth_chainId gave %s, %v", got.Result, got.Error)
	}
}
