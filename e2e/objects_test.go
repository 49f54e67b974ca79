package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/google/go-cmp/cmp"
	"github.com/holiman/uint256"

	"lockstep/internal/must"
)

// objectReport is what a client says of a transaction that it read in every way there
// is.
type objectReport struct {
	Hash        common.Hash     `json:"hash"`
	Type        uint8           `json:"type"`
	ReceiptType uint8           `json:"receiptType"`
	To          *common.Address `json:"to"`
	Nonce       uint64          `json:"nonce"`
	Status      uint64          `json:"status"`
	Created     *common.Address `json:"created"`
	InBlock     bool            `json:"inBlock"`
	ByIndex     common.Hash     `json:"byIndex"`
	Logs        int             `json:"logs"`
	Listed      int             `json:"listed"`     // addresses of its access list
	Authorized  *common.Address `json:"authorized"` // to run for the first of its authorities
}

// TestObjects has every client read a transaction of every type that the network takes,
// a creation, a failure and one with a log, with its receipt, its block and its logs.
func TestObjects(t *testing.T) {
	t.Parallel()
	for _, d := range dialects {
		t.Run(d.profile, func(t *testing.T) {
			t.Parallel()
			n := startDev(t, []string{"RELAY_PROFILE=" + d.profile, "DEBUG_API_ENABLED=true", "TX_TYPE_4_ENABLED=true"}, "--set-code")
			objects(t, n, d)
		})
	}
}

func objects(t *testing.T, n *network, d dialect) {
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	client := dial(t, n.RPC)
	txs, loud := everyType(t, ctx, n)
	authority := n.Accounts[1].address()
	called := objectReport{To: &loud, Status: 1, Logs: 1}
	listing := called
	listing.Listed = 1
	want := []objectReport{{Status: 1, Created: &loud}, called, listing, called, {}, {To: &authority, Status: 1, Logs: 1, Authorized: &loud}}
	var hashes []string
	for i, tx := range txs {
		receipt, err := client.SendTransactionSync(ctx, tx, nil)
		if err != nil || receipt.TxHash != tx.Hash() || receipt.Status != want[i].Status {
			t.Fatalf("%d: %+v %v", i, receipt, err)
		}
		hashes = append(hashes, tx.Hash().Hex())
		want[i].Hash, want[i].ByIndex, want[i].InBlock = tx.Hash(), tx.Hash(), true
		want[i].Type, want[i].ReceiptType, want[i].Nonce = tx.Type(), tx.Type(), tx.Nonce()
		if d.profile == "hiero" && want[i].Created == nil {
			want[i].Created = want[i].To // what the record is about
		}
	}
	for name, read := range map[string]func(t *testing.T) []objectReport{
		"go-ethereum": func(t *testing.T) []objectReport { return readObjects(t, ctx, client, want, d.profile) },
		"ethers":      func(t *testing.T) []objectReport { return scriptObjects(t, n, "ethers", hashes) },
		"viem":        func(t *testing.T) []objectReport { return scriptObjects(t, n, "viem", hashes) },
		"web3.js":     func(t *testing.T) []objectReport { return scriptObjects(t, n, "web3", hashes) },
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, read(t)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	everyReading(t, ctx, n, loud)
	t.Run("trace of a call", func(t *testing.T) { callTrace(t, ctx, client, n.Accounts[0], loud) })
}

// A contract that leaves an event of one topic and calls the zero address, and the code
// that creates it; and code that fails.
const (
	eventful = "602a60006000a1" + "6000600060006000600060006000f150" + "602a60005560206000f3"
	failing  = "60006000fd"
)

// everyType makes the first account's first transactions, one of every type at least: they create a contract that leaves an event, call it three times,
// fail, and let the second account run its code.
func everyType(t *testing.T, ctx context.Context, n *network) (txs []*types.Transaction, loud common.Address) {
	t.Helper()
	sender, authority := n.Accounts[0], n.Accounts[1]
	loud = crypto.CreateAddress(sender.address(), 0)
	price := must.Get(dial(t, n.RPC).SuggestGasPrice(ctx))(t)
	code := common.FromHex(eventful)
	creation := append([]byte{0x60, byte(len(code)), 0x60, 0x0c, 0x60, 0x00, 0x39, 0x60, byte(len(code)), 0x60, 0x00, 0xf3}, code...)
	chain, tip := big.NewInt(chainID), new(big.Int)
	access := types.AccessList{{Address: loud, StorageKeys: []common.Hash{{31: 1}}}}
	authorization := must.Get(types.SignSetCode(authority.key(t), types.SetCodeAuthorization{ChainID: *uint256.NewInt(chainID), Address: loud}))(t)
	for _, data := range []types.TxData{
		&types.DynamicFeeTx{ChainID: chain, Nonce: 0, GasTipCap: tip, GasFeeCap: price, Gas: 500_000, Data: creation},
		&types.LegacyTx{Nonce: 1, GasPrice: price, Gas: 200_000, To: &loud},
		&types.AccessListTx{ChainID: chain, Nonce: 2, GasPrice: price, Gas: 200_000, To: &loud, AccessList: access},
		&types.DynamicFeeTx{ChainID: chain, Nonce: 3, GasTipCap: tip, GasFeeCap: price, Gas: 200_000, To: &loud},
		&types.DynamicFeeTx{ChainID: chain, Nonce: 4, GasTipCap: tip, GasFeeCap: price, Gas: 200_000, Data: common.FromHex(failing)},
		&types.SetCodeTx{
			ChainID: uint256.NewInt(chainID), Nonce: 5, GasTipCap: new(uint256.Int), GasFeeCap: uint256.MustFromBig(price), Gas: 200_000, To: authority.address(),
			AuthList: []types.SetCodeAuthorization{authorization},
		},
	} {
		txs = append(txs, must.Get(types.SignNewTx(sender.key(t), types.LatestSignerForChainID(chain), data))(t))
	}
	return txs, loud
}

func scriptObjects(t *testing.T, n *network, client string, hashes []string) (got []objectReport) {
	script(t, client, map[string]any{"task": "objects", "rpc": n.RPC, "chainId": chainID, "privateKey": n.Accounts[1].PrivateKey, "hashes": hashes}, &got)
	return got
}

// readObjects is the task for go-ethereum's client, which checks what it decodes: blocks
// of profile hiero, whose withdrawalsRoot is that of the TypeScript relay, it does not take.
func readObjects(t *testing.T, ctx context.Context, client *ethclient.Client, of []objectReport, profile string) (got []objectReport) {
	for _, one := range of {
		tx, _ := must.Get2(client.TransactionByHash(ctx, one.Hash))(t)
		receipt := must.Get(client.TransactionReceipt(ctx, one.Hash))(t)
		listed := transactionsOf(t, ctx, client, receipt, profile)
		receipts, err := client.BlockReceipts(ctx, rpc.BlockNumberOrHashWithHash(receipt.BlockHash, true))
		if err != nil || len(receipts) != len(listed) || receipts[receipt.TransactionIndex].TxHash != one.Hash {
			t.Errorf("receipts of the block: %v %v", receipts, err)
		}
		logs := must.Get(client.FilterLogs(ctx, ethereum.FilterQuery{BlockHash: &receipt.BlockHash}))(t)
		byIndex := must.Get(client.TransactionInBlock(ctx, receipt.BlockHash, receipt.TransactionIndex))(t)
		report := objectReport{
			Hash: tx.Hash(), Type: tx.Type(), ReceiptType: receipt.Type, To: tx.To(), Nonce: tx.Nonce(), Status: receipt.Status,
			InBlock: slices.Contains(listed, one.Hash), ByIndex: byIndex.Hash(), Listed: len(tx.AccessList()),
		}
		if list := tx.SetCodeAuthorizations(); len(list) > 0 {
			report.Authorized = &list[0].Address
		}
		if receipt.ContractAddress != (common.Address{}) {
			report.Created = &receipt.ContractAddress
		}
		for _, l := range logs {
			if l.TxHash == one.Hash {
				report.Logs++
			}
		}
		got = append(got, report)
	}
	return got
}

// transactionsOf returns what go-ethereum's client finds in a receipt's block.
func transactionsOf(t *testing.T, ctx context.Context, client *ethclient.Client, receipt *types.Receipt, profile string) (hashes []common.Hash) {
	t.Helper()
	block, err := client.BlockByNumber(ctx, receipt.BlockNumber)
	if profile == "hiero" {
		if err == nil || !strings.Contains(err.Error(), "withdrawal") {
			t.Errorf("a block with another withdrawalsRoot: %v", err)
		}
		var raw struct{ Transactions []types.Transaction }
		must.Do(t, client.Client().CallContext(ctx, &raw, "eth_getBlockByHash", receipt.BlockHash, true))
		for i := range raw.Transactions {
			hashes = append(hashes, raw.Transactions[i].Hash())
		}
		return hashes
	}
	if err != nil {
		t.Fatal(err)
	}
	same, err := client.BlockByHash(ctx, receipt.BlockHash)
	if err != nil || same.NumberU64() != block.NumberU64() || len(same.Transactions()) != len(block.Transactions()) {
		t.Errorf("by hash: %+v %v", same, err)
	}
	for _, tx := range block.Transactions() {
		hashes = append(hashes, tx.Hash())
	}
	return hashes
}

// callTrace has go-ethereum's client decode a trace of what was never in a block.
func callTrace(t *testing.T, ctx context.Context, client *ethclient.Client, sender account, loud common.Address) {
	message := map[string]any{"from": sender.Address, "to": loud, "gas": "0x30d40"}
	var frame struct {
		Type        string
		Calls, Logs []any
	}
	options := map[string]any{"tracer": "callTracer", "tracerConfig": map[string]any{"withLog": true}}
	if err := client.Client().CallContext(ctx, &frame, "debug_traceCall", message, "latest", options); err != nil || frame.Type != "CALL" || len(frame.Calls) != 1 || len(frame.Logs) != 1 {
		t.Errorf("%+v %v", frame, err)
	}
}

// TestNewerMethods has viem use the methods that came to Ethereum last.
func TestNewerMethods(t *testing.T) {
	t.Parallel()
	n := startDev(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	token, sender := contract(t, "Token"), n.Accounts[0]
	arguments := must.Get(token.parsed(t).Pack("", "Lock", "LCK", big.NewInt(5000)))(t)
	created := mine(t, ctx, dial(t, n.RPC), sender, nil, append(token.code(), arguments...))
	type report struct {
		Status      int      `json:"status"`
		Filled      string   `json:"filled"`
		FilledNonce int      `json:"filledNonce"`
		FilledGas   int      `json:"filledGas"`
		Listed      int      `json:"listed"`
		GasUsed     int      `json:"gasUsed"`
		Simulated   []string `json:"simulated"`
		Told        string   `json:"told"` // by the code of blockTelling
	}
	var got report
	script(t, "viem", map[string]any{
		"task": "newer", "rpc": n.RPC, "chainId": chainID, "privateKey": sender.PrivateKey, "artifact": token,
		"contract": created.receipt.ContractAddress, "recipient": n.Accounts[1].Address, "stranger": n.Accounts[2].Address,
		"blockTelling": blockTelling,
	}, &got)
	if got.FilledGas < got.GasUsed || got.GasUsed < 21_000 {
		t.Errorf("gas: %+v", got)
	}
	got.FilledGas, got.GasUsed, got.Filled = 0, 0, common.HexToAddress(got.Filled).Hex()
	want := report{Status: 1, Filled: created.receipt.ContractAddress.Hex(), FilledNonce: 2, Listed: 1, Simulated: []string{"success", "failure"}, Told: fmt.Sprintf("0x%064x%064x", 77, 88)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestSynthetic has every client read the transaction that the relay shows for an event
// without a contract call. The network moves tokens so; the devnet has none, and so the
// mirror node's answers about a token contract's transfer lose its result on their way.
func TestSynthetic(t *testing.T) {
	t.Parallel()
	n := startDev(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	token, sender := contract(t, "Token"), n.Accounts[0]
	parsed := token.parsed(t)
	arguments := must.Get(parsed.Pack("", "Lock", "LCK", big.NewInt(5000)))(t)
	created := mine(t, ctx, dial(t, n.RPC), sender, nil, append(token.code(), arguments...)).receipt
	transfer := must.Get(parsed.Pack("transfer", n.Accounts[1].address(), big.NewInt(42)))(t)
	moved := mine(t, ctx, dial(t, n.RPC), sender, &created.ContractAddress, transfer).receipt

	front := *n
	front.Mirror = withoutResult(t, n.Mirror, moved)
	for _, d := range dialects {
		t.Run(d.profile, func(t *testing.T) {
			relay := startServe(t, &front, n.Accounts[2], "RELAY_PROFILE="+d.profile, "DEBUG_API_ENABLED=true")
			want := []objectReport{{Hash: moved.TxHash, To: &created.ContractAddress, Status: 1, InBlock: true, ByIndex: moved.TxHash, Logs: 1}}
			if d.profile == "hiero" {
				want[0].Created = want[0].To // the token
			}
			for _, client := range []string{"ethers", "viem", "web3"} {
				if diff := cmp.Diff(want, scriptObjects(t, relay, client, []string{moved.TxHash.Hex()})); diff != "" {
					t.Errorf("%s (-want +got)\n%s", client, diff)
				}
			}
			got := readObjects(t, ctx, dial(t, relay.RPC), want, d.profile)
			// go-ethereum takes no hash on trust: what nobody signed has one of its own.
			unsigned := types.LegacyTx{Gas: 400_000, GasPrice: new(big.Int), To: &created.ContractAddress}
			if d.profile == "hiero" {
				unsigned.GasPrice, unsigned.Data = big.NewInt(0xfe), make([]byte, 8)
			}
			own := types.NewTx(&unsigned).Hash()
			want[0].Hash, want[0].ByIndex, want[0].InBlock = own, own, false
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("go-ethereum (-want +got)\n%s", diff)
			}
			describedSynthetic(t, relay, moved)
		})
	}
}

// describedSynthetic holds what there is of it to the relay's document.
func describedSynthetic(t *testing.T, relay *network, moved *types.Receipt) {
	t.Helper()
	c := &conformance{t: t, network: relay, document: discover(t, relay.RPC)}
	hash, block := moved.TxHash.Hex(), moved.BlockHash.Hex()
	for method, params := range map[string]string{
		"eth_getTransactionByHash":              `["` + hash + `"]`,
		"eth_getTransactionReceipt":             `["` + hash + `"]`,
		"eth_getTransactionByBlockHashAndIndex": `["` + block + `","0x0"]`,
		"eth_getBlockByHash":                    `["` + block + `",true]`,
		"eth_getBlockReceipts":                  `["` + block + `"]`,
		"eth_getLogs":                           `[{"blockHash":"` + block + `"}]`,
		"debug_traceTransaction":                `["` + hash + `",{"tracer":"callTracer"}]`,
		"debug_getRawTransaction":               `["` + hash + `"]`,
	} {
		i := slices.IndexFunc(c.document.Methods, func(m methodSchema) bool { return m.Name == method })
		if i < 0 {
			t.Fatalf("no %s", method)
		}
		c.answered(c.document.Methods[i], params)
	}
}

// withoutResult is a way to a mirror node on which the result of one transaction gets lost.
// It returns the address.
func withoutResult(t *testing.T, mirror string, moved *types.Receipt) string {
	t.Helper()
	hash := moved.TxHash
	target := must.Get(url.Parse(mirror))(t)
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Accept-Encoding") // the text is needed
			if strings.Contains(r.In.URL.Path, hash.Hex()) {
				r.Out.URL.Path = strings.Replace(r.In.URL.Path, hash.Hex(), common.MaxHash.Hex(), 1) // of which nothing is known
			}
		},
		ModifyResponse: func(r *http.Response) error {
			blocks := strings.Contains(r.Request.URL.Path, "/blocks")
			if !blocks && !strings.HasSuffix(r.Request.URL.Path, "/contracts/results") || r.StatusCode != http.StatusOK {
				return nil
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			show := func(text []byte) {
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
				r.Header.Del("Content-Length")
			}
			if blocks { // a native transaction uses no gas of theirs
				show(bytes.ReplaceAll(body, fmt.Appendf(nil, `"gas_used":%d`, moved.GasUsed), []byte(`"gas_used":0`)))
				return nil
			}
			var page map[string]json.RawMessage
			var results []json.RawMessage
			if err := json.Unmarshal(body, &page); err != nil {
				return err
			}
			if err := json.Unmarshal(page["results"], &results); err != nil {
				return err
			}
			results = slices.DeleteFunc(results, func(one json.RawMessage) bool { return bytes.Contains(one, []byte(hash.Hex())) })
			if page["results"], err = json.Marshal(results); err != nil {
				return err
			}
			if body, err = json.Marshal(page); err == nil {
				show(body)
			}
			return err
		},
	})
	t.Cleanup(server.Close)
	return server.URL
}

// readings are all kinds of objects beside transactions and their receipts, with what every
// client must say of each after a transaction that leaves an event: a client that leaves one
// out fails. What a library has no method for is asked for by its general one and goes
// through its formatter, if it has one.
var readings = map[string]string{
	"block of hashes":                  "<number> block transaction",
	"receipts of a block":              "transaction 1 26597 1", // with status, gas and logs
	"changes of a filter of logs":      event,
	"changes of a filter of blocks":    "block",
	"filter of pending transactions":   "-32601", // there are none
	"subscription to heads":            "<number> parent",
	"subscription to logs":             event,
	"fee history":                      "<number-1> 710000000000,710000000000,710000000000 2 2,2", // base fees, how many ratios, and rewards of each block
	"access list":                      "0x0000000000000000000000000000000000000000 0 contract 1 26597",
	"simulation":                       "1 26597 1, 0 53064 0", // status, gas and logs of each call
	"calls of a transaction":           "call sender contract 26597 1 1",
	"state before a transaction":       "contract sender",
	"state that a transaction changed": "sender, sender",
	"proof":                            "-32601", // the network has none to give
}

// event is the log of the contract: its transaction, index, address and number of topics.
const event = "transaction 0 contract 1"

// reading is one transaction that a client sends, and what it may simulate.
type reading struct {
	raw      string
	hash     common.Hash
	sender   common.Address
	contract common.Address
}

// calls are one that leaves an event and one that fails.
func (r reading) calls() []map[string]any {
	return []map[string]any{
		{"from": r.sender, "to": r.contract, "gas": "0x30d40"},
		{"from": r.sender, "data": "0x" + failing, "gas": "0x30d40"},
	}
}

// check compares what a client says, with names in place of what differs from run to run.
func (r reading) check(t *testing.T, ctx context.Context, client *ethclient.Client, got map[string]string) {
	t.Helper()
	receipt := receiptOf(t, ctx, client, r.hash)
	header := must.Get(client.HeaderByHash(ctx, receipt.BlockHash))(t)
	names := strings.NewReplacer(
		strings.ToLower(r.hash.Hex()), "transaction", receipt.BlockHash.Hex(), "block", header.ParentHash.Hex(), "parent",
		strings.ToLower(r.sender.Hex()), "sender", strings.ToLower(r.contract.Hex()), "contract",
		fmt.Sprintf("<%d>", receipt.BlockNumber), "<number>", fmt.Sprintf("<%d>", receipt.BlockNumber.Uint64()-1), "<number-1>",
	)
	for object, text := range got {
		got[object] = names.Replace(strings.ToLower(text))
	}
	if diff := cmp.Diff(readings, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// everyReading lets every client read every object, one client after the other: each hears
// what it sent itself.
func everyReading(t *testing.T, ctx context.Context, n *network, contract common.Address) {
	client := dial(t, n.RPC)
	price := must.Get(client.SuggestGasPrice(ctx))(t)
	for i, name := range []string{"ethers", "viem", "web3", "go-ethereum"} {
		t.Run("readings/"+name, func(t *testing.T) {
			sender := n.Accounts[4+i]
			tx := must.Get(types.SignNewTx(sender.key(t), types.LatestSignerForChainID(big.NewInt(chainID)), &types.DynamicFeeTx{
				ChainID: big.NewInt(chainID), GasTipCap: new(big.Int), GasFeeCap: price, Gas: 200_000, To: &contract,
			}))(t)
			r := reading{raw(t, tx), tx.Hash(), sender.address(), contract}
			var got map[string]string
			if name == "go-ethereum" {
				got = r.goEthereum(t, ctx, n, tx)
			} else {
				script(t, name, map[string]any{
					"task": "readings", "rpc": n.RPC, "ws": n.WS, "chainId": chainID, "privateKey": sender.PrivateKey,
					"raw": r.raw, "contract": contract, "calls": r.calls(),
				}, &got)
			}
			r.check(t, ctx, client, got)
		})
	}
}

// goEthereum is the task for go-ethereum's client.
func (r reading) goEthereum(t *testing.T, ctx context.Context, n *network, tx *types.Transaction) map[string]string {
	client, live := dial(t, n.RPC), dial(t, n.WS)
	ask := func(into any, method string, params ...any) {
		t.Helper()
		if err := client.Client().CallContext(ctx, into, method, params...); err != nil {
			t.Fatalf("%s: %v", method, err)
		}
	}
	refusal := func(method string, params ...any) string { // over HTTP the client shows the status in place of the code, where an error has one
		var refused rpc.Error
		if err := live.Client().CallContext(ctx, new(any), method, params...); !errors.As(err, &refused) {
			return fmt.Sprint(err)
		}
		return fmt.Sprint(refused.ErrorCode())
	}

	headers, events := make(chan *types.Header, 100), make(chan types.Log, 100)
	heads := must.Get(live.SubscribeNewHead(ctx, headers))(t)
	defer heads.Unsubscribe()
	query := ethereum.FilterQuery{Addresses: []common.Address{r.contract}}
	heard := must.Get(live.SubscribeFilterLogs(ctx, query, events))(t)
	defer heard.Unsubscribe()
	var logFilter, blockFilter string
	ask(&logFilter, "eth_newFilter", map[string]any{"address": r.contract})
	ask(&blockFilter, "eth_newBlockFilter")
	receipt := must.Get(client.SendTransactionSync(ctx, tx, nil))(t)

	var block struct {
		Number       *hexutil.Big
		Hash         common.Hash
		Transactions []common.Hash
	}
	ask(&block, "eth_getBlockByHash", receipt.BlockHash, false)
	receipts := must.Get(client.BlockReceipts(ctx, rpc.BlockNumberOrHashWithHash(receipt.BlockHash, false)))(t)
	var logs []types.Log
	until(t, "changes of the filter of logs", func() bool { ask(&logs, "eth_getFilterChanges", logFilter); return len(logs) > 0 })
	var blocks []common.Hash
	until(t, "changes of the filter of blocks", func() bool { ask(&blocks, "eth_getFilterChanges", blockFilter); return len(blocks) > 0 })
	history := must.Get(client.FeeHistory(ctx, 2, receipt.BlockNumber, []float64{10, 50}))(t)
	var list struct {
		AccessList types.AccessList
		GasUsed    hexutil.Uint64
	}
	ask(&list, "eth_createAccessList", r.calls()[0])
	simulated := must.Get(client.SimulateV1(ctx, ethclient.SimulateOptions{BlockStateCalls: []ethclient.SimulateBlock{{Calls: []ethereum.CallMsg{
		{From: r.sender, To: &r.contract, Gas: 200_000}, {From: r.sender, Data: common.FromHex(failing), Gas: 200_000},
	}}}}, nil))(t)

	head := next(t, headers)
	for head.Number.Cmp(receipt.BlockNumber) < 0 {
		head = next(t, headers)
	}
	said := map[string]string{
		"block of hashes":                line(numbered(block.Number.ToInt()), block.Hash, words(block.Transactions)),
		"receipts of a block":            ofReceipts(receipts),
		"changes of a filter of logs":    ofLogs(logs...),
		"changes of a filter of blocks":  words(blocks),
		"filter of pending transactions": refusal("eth_newPendingTransactionFilter"),
		"subscription to heads":          line(numbered(head.Number), head.ParentHash),
		"subscription to logs":           ofLogs(next(t, events)),
		"fee history":                    ofHistory(history),
		"access list":                    ofAccessList(list.AccessList, uint64(list.GasUsed)),
		"simulation":                     ofSimulation(simulated[0].Calls),
		"proof":                          refusal("eth_getProof", r.contract, []string{}, "latest"),
	}
	maps.Copy(said, r.traces(ask))
	return said
}

// traces are read into what go-ethereum's own tracers write.
func (r reading) traces(ask func(into any, method string, params ...any)) map[string]string {
	trace := func(into any, tracer string, config map[string]any) {
		ask(into, "debug_traceTransaction", r.hash, map[string]any{"tracer": tracer, "tracerConfig": config})
	}
	var call struct {
		Type        string
		From, To    common.Address
		GasUsed     hexutil.Uint64
		Calls, Logs []any
	}
	trace(&call, "callTracer", map[string]any{"withLog": true})
	var before types.GenesisAlloc
	trace(&before, "prestateTracer", map[string]any{"diffMode": false})
	var changed struct{ Pre, Post types.GenesisAlloc }
	trace(&changed, "prestateTracer", map[string]any{"diffMode": true})
	return map[string]string{
		"calls of a transaction":           line(call.Type, call.From, call.To, uint64(call.GasUsed), len(call.Calls), len(call.Logs)),
		"state before a transaction":       words(addressesOf(before)),
		"state that a transaction changed": words(addressesOf(changed.Pre)) + ", " + words(addressesOf(changed.Post)),
	}
}

// The facts as clients/task.mjs puts them.

func line(facts ...any) string { return strings.TrimSuffix(fmt.Sprintln(facts...), "\n") }

func words[T any](list []T) string { return strings.Trim(fmt.Sprint(list), "[]") }

func numbered(number *big.Int) string { return fmt.Sprintf("<%d>", number) }

func addressesOf(state types.GenesisAlloc) []common.Address {
	return slices.SortedFunc(maps.Keys(state), common.Address.Cmp)
}

func ofLogs(logs ...types.Log) string {
	var lines []string
	for _, l := range logs {
		lines = append(lines, line(l.TxHash, l.Index, l.Address, len(l.Topics)))
	}
	return strings.Join(lines, ", ")
}

func ofReceipts(receipts []*types.Receipt) string {
	var lines []string
	for _, one := range receipts {
		lines = append(lines, line(one.TxHash, one.Status, one.GasUsed, len(one.Logs)))
	}
	return strings.Join(lines, ", ")
}

func ofHistory(h *ethereum.FeeHistory) string {
	var fees, rewards []string
	for _, fee := range h.BaseFee {
		fees = append(fees, fee.String())
	}
	for _, row := range h.Reward {
		rewards = append(rewards, fmt.Sprint(len(row)))
	}
	return line(numbered(h.OldestBlock), strings.Join(fees, ","), len(h.GasUsedRatio), strings.Join(rewards, ","))
}

func ofAccessList(list types.AccessList, gas uint64) string {
	var lines []string
	for _, one := range list {
		lines = append(lines, strings.ToLower(line(one.Address, len(one.StorageKeys))))
	}
	slices.Sort(lines)
	return line(strings.Join(lines, " "), gas)
}

func ofSimulation(calls []ethclient.SimulateCallResult) string {
	var lines []string
	for _, one := range calls {
		lines = append(lines, line(one.Status, one.GasUsed, len(one.Logs)))
	}
	return strings.Join(lines, ", ")
}
