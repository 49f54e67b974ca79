package mirror

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
	rediscache "lockstep/internal/relay/cache"
	"lockstep/internal/secret"
)

// sharing is a client of a mirror node that shares what Redis keeps with others.
func sharing(t *testing.T, redisURL, url string, change ...func(*Config)) *Client {
	t.Helper()
	redis := must.Get(redisx.Open(redisURL, redisx.Options{Timeout: patience}))(t)
	t.Cleanup(func() { _ = redis.Close() })
	log := slog.New(slog.DiscardHandler)
	store := rediscache.New(rediscache.Config{TTL: envx.Millis(time.Hour), MaxValue: 1 << 18, MaxBytes: 1 << 30, Timeout: envx.Millis(patience)}, redis, log)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		_ = store.Run(ctx)
		close(done)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	config := defaults(t)
	config.URL, config.RetryDelay, config.BreakerFailures, config.Timeout = secret.URL(url), 0, 0, envx.Millis(patience)
	for _, c := range change {
		c(&config)
	}
	client := must.Get(New(config, Options{Log: log, Store: store}))(t)
	t.Cleanup(client.fetch.CloseIdleConnections)
	return client
}

const earliestPath = "blocks?limit=1&order=asc"

// keptRead is a read whose answer is kept.
type keptRead struct {
	name string
	from func(context.Context, *Client) (any, error)
}

// keptReads are the reads of one of each kind that is kept.
func keptReads(t *testing.T) []keptRead {
	t.Helper()
	block := new(Block)
	must.Do(t, unmarshal([]byte(blockJSON(17)), block))
	return []keptRead{
		{"block", func(ctx context.Context, c *Client) (any, error) { return c.BlockByNumber(ctx, 17) }},
		{"block by hash", func(ctx context.Context, c *Client) (any, error) {
			return c.BlockByHash(ctx, common.HexToHash(blockHash))
		}},
		{"result", func(ctx context.Context, c *Client) (any, error) {
			return c.ContractResult(ctx, common.HexToHash(txHash))
		}},
		{"results", func(ctx context.Context, c *Client) (any, error) { return c.BlockResults(ctx, block) }},
		{"logs", func(ctx context.Context, c *Client) (any, error) { return c.BlockLogs(ctx, block, LogsQuery{}) }},
		{"alias", func(ctx context.Context, c *Client) (any, error) {
			return c.Alias(ctx, address("0x00000000000000000000000000000000000003f2"))
		}},
	}
}

// everything reads one of each kind that is kept.
func everything(t *testing.T, c *Client) (all []any) {
	t.Helper()
	for _, read := range keptReads(t) {
		got, err := read.from(t.Context(), c)
		if err != nil {
			t.Fatalf("%s: %v", read.name, err)
		}
		all = append(all, got)
	}
	return all
}

func populated(t *testing.T) *node {
	n := newNode(t)
	populate(n)
	return n
}

// populate gives a node one of each kind that is kept.
func populate(n *node) {
	const window = "timestamp=gte:1767225600.000000001&timestamp=lte:1767225601.999999999&limit=100&order="
	n.set(earliestPath, blocksJSON("null", 0))
	n.set("blocks/17", blockJSON(17))
	n.set("blocks/"+blockHash, blockJSON(17))
	n.set("contracts/results/"+txHash+"?hbar=false", resultJSON())
	n.set("contracts/results?"+window+"asc&hbar=false", `{"results":[`+resultJSON()+`],"links":{"next":null}}`)
	n.set("contracts/results/logs?"+window+"desc", `{"logs":[{"address":"`+receiver+`","data":"0x01","index":0,"topics":["`+txHash+`"],"block_hash":"`+blockHash+tail+`",
		"block_number":17,"transaction_hash":"`+txHash+`","transaction_index":0,"timestamp":"1767225600.000000001"}],"links":{"next":null}}`)
	n.set("accounts/0.0.1010?transactions=false", `{"account":"0.0.1010","evm_address":"`+receiver+`","balance":{"balance":1}}`)
}

// written waits until Redis holds so many records, and returns their keys.
func written(t *testing.T, server *redistest.Server, records int) (keys []string) {
	t.Helper()
	redis := server.Client()
	until(t, "the records", func() bool {
		var err error
		if keys, err = redis.Keys(t.Context(), "lockstep:cache:*").Result(); err != nil {
			t.Fatal(err)
		}
		return len(keys) == records
	})
	return keys
}

const recordsOfEverything = 6 // the oldest block is not named before it is known

// What one relay has read another one takes from Redis, and it is the same.
func TestTwoRelaysShareARedis(t *testing.T) {
	server, n := redistest.Start(t), populated(t)
	one := everything(t, sharing(t, server.URL(), n.URL))
	written(t, server, recordsOfEverything)
	n.requests()
	other := everything(t, sharing(t, server.URL(), n.URL))
	if diff := sameRecord(one, other); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{earliestPath}, n.requests()); diff != "" {
		t.Errorf("besides asking which chain it is (-want +got)\n%s", diff)
	}
}

// What is damaged in Redis is read from the mirror node again.
func TestDamagedRecordsAreIgnored(t *testing.T) {
	server, n := redistest.Start(t), populated(t)
	one := everything(t, sharing(t, server.URL(), n.URL))
	for _, key := range written(t, server, recordsOfEverything) {
		must.Do(t, server.Client().SetRange(t.Context(), key, 3, "damage").Err())
	}
	client := sharing(t, server.URL(), n.URL)
	if diff := sameRecord(one, everything(t, client)); diff != "" {
		t.Error(diff)
	}
	var metric dto.Metric
	if err := client.unreadable.Write(&metric); err != nil || metric.GetCounter().GetValue() < 4 {
		t.Errorf("%v damaged records were noticed, %v", metric.GetCounter().GetValue(), err)
	}
}

// Errors and absence are not kept, and another chain has other records.
func TestWhatIsNotShared(t *testing.T) {
	server, n := redistest.Start(t), populated(t)
	client := sharing(t, server.URL(), n.URL)
	if _, err := client.BlockByNumber(t.Context(), 18); err == nil {
		t.Fatal("there is no block 18")
	}
	must.Get(client.BlockByNumber(t.Context(), 17))(t)
	for _, key := range written(t, server, 2) {
		if strings.Contains(key, ":b:18") {
			t.Errorf("%s is kept", key)
		}
	}
	anew := newNode(t)
	anew.set(earliestPath, strings.ReplaceAll(blocksJSON("null", 0), blockHash, txHash))
	if b, err := sharing(t, server.URL(), anew.URL).BlockByNumber(t.Context(), 17); err == nil {
		t.Errorf("block %d of another chain", b.Number)
	}
}
