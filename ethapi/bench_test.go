package ethapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/must"
	"lockstep/rpc"
)

// benchmark runs a method's handler over a mirror node on a loopback socket; the
// client's half of HTTP is not in the figure, the mirror node's is.
func benchmark(b *testing.B, method string, params func(i int) string, change ...func(*settings)) {
	node := newMirrorNode(b)
	populate(node)
	relay := newRelay(b, node, change...)
	var row rpc.Method
	for _, m := range relay.api.Methods() {
		if m.Name == method {
			row = m
		}
	}
	b.ReportAllocs()
	node.requests()
	i := 0
	for b.Loop() {
		p, ok := rpc.NewParams([]byte(params(i)))
		if !ok {
			b.Fatal(params(i))
		}
		result, err := row.Handler(b.Context(), p)
		if err != nil {
			b.Fatal(err)
		}
		must.Get(json.Marshal(result))(b)
		i++
	}
	b.ReportMetric(float64(len(node.requests()))/float64(i), "mirror-calls/op")
}

func uncached(s *settings) { s.Mirror.CacheEntries = 0 }

func BenchmarkBalance(b *testing.B) {
	params := `["` + senderText() + `","latest"]`
	benchmark(b, "eth_getBalance", func(int) string { return params })
}

func BenchmarkBlockNumber(b *testing.B) {
	benchmark(b, "eth_blockNumber", func(int) string { return "[]" }, func(s *settings) { s.Mirror.Freshness = 200e6 })
}

func BenchmarkReceipt(b *testing.B) {
	block := scenario()
	params := func(i int) string { return `["` + block[i%len(block)].Hash().Hex() + `"]` }
	b.Run("cold", func(b *testing.B) { benchmark(b, "eth_getTransactionReceipt", params, uncached) })
	b.Run("warm", func(b *testing.B) { benchmark(b, "eth_getTransactionReceipt", params) })
}

func BenchmarkFullBlock(b *testing.B) {
	params := func(int) string { return `["0x11",true]` }
	b.Run("cold", func(b *testing.B) { benchmark(b, "eth_getBlockByNumber", params, uncached) })
	b.Run("warm", func(b *testing.B) { benchmark(b, "eth_getBlockByNumber", params) })
}

func BenchmarkLogs(b *testing.B) {
	logs := make([]any, 100)
	for i := range logs {
		logs[i] = logJSON(synthetic, hexutil.Encode(contract[:]), "0x"+strings.Repeat("2a", 32), 0, i, 17, transferID, transferID)
	}
	answer := logList(logs...)
	node := newMirrorNode(b)
	populate(node)
	node.set("contracts/results/logs?"+rangeWindow+"&limit=100&order=desc", answer)
	relay := newRelay(b, node)
	b.ReportAllocs()
	for b.Loop() {
		p, _ := rpc.NewParams([]byte(`[{"fromBlock":"0xa","toBlock":"0x11"}]`))
		result := must.Get(relay.api.getLogs(b.Context(), p))(b)
		must.Get(json.Marshal(result))(b)
	}
}
