package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/must"
)

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
	front.Mirror = withoutResult(t, n.Mirror, moved.TxHash)
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
func withoutResult(t *testing.T, mirror string, hash common.Hash) string {
	t.Helper()
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
			if !strings.HasSuffix(r.Request.URL.Path, "/contracts/results") || r.StatusCode != http.StatusOK {
				return nil
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return err
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
			if body, err = json.Marshal(page); err != nil {
				return err
			}
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			r.Header.Del("Content-Length")
			return nil
		},
	})
	t.Cleanup(server.Close)
	return server.URL
}
