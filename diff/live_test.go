package diff_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"

	"lockstep/devnet"
	"lockstep/diff"
	"lockstep/e2e/harness"
	"lockstep/internal/must"
)

// relay runs a relay in front of the chain and returns its URL.
func relay(t *testing.T, chain *devnet.Network, profile string) string {
	t.Helper()
	a, _ := harness.Relay(t, chain, nil, "RATE_LIMIT_DISABLED=true", "RELAY_PROFILE="+profile)
	return "http://" + a.HTTPAddr()
}

// ask makes one call that must not fail.
func ask(t *testing.T, url, method string, params ...any) (result json.RawMessage) {
	t.Helper()
	client := must.Get(rpc.DialContext(t.Context(), url))(t)
	defer client.Close()
	if err := client.CallContext(t.Context(), &result, method, params...); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	return result
}

// live puts a transfer and a contract with a log on the chain.
func live(t *testing.T, chain *devnet.Network, url string) {
	t.Helper()
	key := must.Get(crypto.HexToECDSA(strings.TrimPrefix(chain.Accounts()[1].PrivateKey, "0x")))(t)
	to := crypto.PubkeyToAddress(key.PublicKey)
	for nonce, inner := range []*types.DynamicFeeTx{
		{To: &to, Value: big.NewInt(1e10), Gas: 21_000},
		{Data: hexutil.MustDecode("0x60006000a000"), Gas: 200_000}, // LOG0 and no code
	} {
		inner.ChainID, inner.Nonce, inner.GasFeeCap, inner.GasTipCap = big.NewInt(298), uint64(nonce), big.NewInt(2e12), new(big.Int)
		tx := must.Get(types.SignNewTx(key, types.LatestSignerForChainID(inner.ChainID), inner))(t)
		raw := must.Get(tx.MarshalBinary())(t)
		ask(t, url, "eth_sendRawTransaction", hexutil.Encode(raw))
		must.Until(t, "a receipt", func() bool { return string(ask(t, url, "eth_getTransactionReceipt", tx.Hash())) != "null" })
	}
}

func generate(t *testing.T, url string) string {
	t.Helper()
	var file strings.Builder
	must.Do(t, diff.Generate(t.Context(), diff.GenerateConfig{From: diff.Endpoint{URL: url}}, &file))
	return file.String()
}

func run(t *testing.T, c diff.Config, requests string) (diff.Summary, string) {
	t.Helper()
	var out strings.Builder
	summary, err := diff.Run(t.Context(), c, strings.NewReader(requests), &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return summary, out.String()
}

// The two profiles refuse in different words and statuses, and their results differ where
// docs/METHODS.md says; that, all of it and nothing else, is what must come out.
func TestTwoProfilesOfOneChain(t *testing.T) {
	chain := harness.Network(t, devnet.Config{})
	hiero, ethereum := relay(t, chain, "hiero"), relay(t, chain, "ethereum")
	live(t, chain, hiero)
	requests := generate(t, hiero)
	for _, method := range []string{"eth_getBlockByNumber", "eth_getTransactionReceipt", "eth_getLogs", "eth_call", "eth_getCode"} {
		if !strings.Contains(requests, method) {
			t.Errorf("nothing was generated for %s", method)
		}
	}
	two := diff.Config{A: diff.Endpoint{URL: hiero}, B: diff.Endpoint{URL: ethereum}, Pin: true}
	known := []string{
		"eth_getBlock*:result.transactionsRoot", "eth_getBlock*:result.receiptsRoot", "eth_getBlock*:result.withdrawalsRoot",
		"eth_getBlock*:result.transactions[*].gasPrice", "eth_getTransaction*:result.gasPrice",
		"eth_getTransactionReceipt:result.contractAddress", "eth_getBlockReceipts:result[*].contractAddress",
		"eth_getTransactionReceipt:result.root", "eth_getBlockReceipts:result[*].root",
	}
	_, all := run(t, two, requests)
	for _, path := range known {
		if _, place, _ := strings.Cut(path, ":"); !strings.Contains(all, place) {
			t.Errorf("no difference of %s", path)
		}
	}
	two.Ignore = known
	summary, out := run(t, two, requests)
	t.Log(out)
	for _, want := range []string{
		"status: 400 != 200",
		`error.message: "Method eth_subscribe not found" != "notifications not supported"`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing", want)
		}
	}
	for method, tally := range summary.Methods {
		if fails := strings.Contains("eth_getBalance eth_getBlockByNumber eth_getLogs eth_getProof eth_noSuchMethod eth_subscribe", method); !fails && tally.Different > 0 {
			t.Errorf("%s: %+v", method, tally)
		}
	}
	if summary.Total.Trouble != 0 || summary.Total.Same < 50 || summary.Total.Different < 4 {
		t.Errorf("%+v", summary.Total)
	}
}

func TestARelayIsLikeItself(t *testing.T) {
	chain := harness.Network(t, devnet.Config{})
	url := relay(t, chain, "hiero")
	live(t, chain, url)
	requests := generate(t, url) + `
>> [{"jsonrpc":"2.0","id":1,"method":"eth_chainId"},{"jsonrpc":"2.0","id":2,"method":"eth_blockNumber","params":[]}]
>> not JSON at all
{"method":"eth_getBlockByNumber","params":["latest",true]}
{"method":"web3_clientVersion"}
{"method":"eth_newBlockFilter"}
`
	same := diff.Endpoint{URL: url}
	summary, out := run(t, diff.Config{A: same, B: same, Pin: true, Concurrency: 16}, requests)
	if lines := strings.Count(strings.ReplaceAll(strings.TrimSpace(requests), "\n\n", "\n"), "\n") + 1; summary.Total.Sent != lines || summary.Total.Same != lines {
		t.Errorf("%d requests, %+v\n%s", lines, summary.Total, out)
	}
}

// A relay that is not there is no difference.
func TestOneIsDown(t *testing.T) {
	up := relay(t, harness.Network(t, devnet.Config{}), "hiero")
	requests := strings.Repeat("{\"method\":\"eth_chainId\"}\n", 5)
	summary, out := run(t, diff.Config{A: diff.Endpoint{URL: up}, B: diff.Endpoint{URL: "http://user:hunter2@127.0.0.1:1/key"}}, requests)
	if summary.Total.Trouble != 5 || summary.Total.Different != 0 || !strings.Contains(out, "b gave no answer") {
		t.Errorf("%+v\n%s", summary.Total, out)
	}
	if strings.Contains(out, "hunter2") || strings.Contains(out, "/key") {
		t.Errorf("the URL is shown:\n%s", out)
	}
	_, err := diff.Run(t.Context(), diff.Config{A: diff.Endpoint{URL: up}, B: diff.Endpoint{URL: "http://127.0.0.1:1"}, Pin: true}, strings.NewReader(requests), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "b gave no answer") {
		t.Errorf("pinned: %v", err)
	}
	_, err = diff.Run(t.Context(), diff.Config{A: diff.Endpoint{URL: up}, B: diff.Endpoint{URL: "http://127.0.0.1:1"}}, strings.NewReader(strings.Repeat(requests, 100)), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "in a row") {
		t.Errorf("500 requests to a relay that is down: %v", err)
	}
}

// Transactions are left out unless they are asked for, in batches, too.
func TestWritesAreLeftOut(t *testing.T) {
	url := relay(t, harness.Network(t, devnet.Config{}), "ethereum")
	same := diff.Endpoint{URL: url}
	requests := `{"method":"eth_sendRawTransaction","params":["0x00"]}
[{"jsonrpc":"2.0","id":1,"method":"eth_chainId"},{"jsonrpc":"2.0","id":2,"method":"eth_sendRawTransaction","params":["0x00"]}]
`
	summary, _ := run(t, diff.Config{A: same, B: same}, requests)
	if summary.Total.Skipped != 2 || summary.Total.Sent != 0 {
		t.Errorf("%+v", summary.Total)
	}
	summary, out := run(t, diff.Config{A: same, B: same, Writes: true}, requests)
	if summary.Total.Sent != 2 || summary.Total.Same != 2 {
		t.Errorf("%+v\n%s", summary.Total, out)
	}
}

func ExampleRun() {
	requests := strings.NewReader(`{"method":"eth_chainId"}`)
	config := diff.Config{A: diff.Endpoint{URL: "http://127.0.0.1:7546"}, B: diff.Endpoint{URL: "ftp://example.com"}}
	_, err := diff.Run(context.Background(), config, requests, io.Discard)
	fmt.Println(err)
	// Output: b: want the URL of a relay, http://… or https://…
}
