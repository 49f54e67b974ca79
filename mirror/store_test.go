package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

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
	must.Until(t, "the records", func() bool {
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

// A keeping is some relays and where they keep what cannot change.
type keeping struct {
	relays []*Client
	redis  redis.UniversalClient // what they share; nil if nothing that works
}

const keptEntries, keptBytes = 8, 20_000

// bounded has room for few contract results.
func bounded(c *Config) { c.CacheEntries, c.CacheBytes = keptEntries, 4*keptBytes }

// nothing keeps nothing in the process.
func nothing(c *Config) { c.CacheEntries = 0 }

// Wherever records are kept, the contract is the same: what was kept is had as it was, or
// not at all; never what belongs to something else, or to another chain, or is damaged;
// and a process keeps no more than it may. Nothing but that is asked for.
func TestKept(t *testing.T) {
	open := func(t *testing.T, url string) redis.UniversalClient {
		client := must.Get(redisx.Open(url, redisx.Options{Timeout: patience}))(t)
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	for name, start := range map[string]func(*testing.T, *node) keeping{
		"here": func(t *testing.T, n *node) keeping {
			return keeping{relays: []*Client{connect(t, n.URL, bounded)}}
		},
		"redis": func(t *testing.T, n *node) keeping {
			url := redistest.Start(t).URL()
			return keeping{[]*Client{sharing(t, url, n.URL, nothing), sharing(t, url, n.URL, nothing)}, open(t, url)}
		},
		"cluster": func(t *testing.T, n *node) keeping {
			url := redistest.StartCluster(t).URL()
			return keeping{[]*Client{sharing(t, url, n.URL, nothing), sharing(t, url, n.URL, nothing)}, open(t, url)}
		},
		"here and redis": func(t *testing.T, n *node) keeping {
			url := redistest.Start(t).URL()
			return keeping{[]*Client{sharing(t, url, n.URL, bounded), sharing(t, url, n.URL, bounded)}, open(t, url)}
		},
		"here, as redis is away": func(t *testing.T, n *node) keeping {
			server := redistest.Start(t)
			server.Kill()
			return keeping{relays: []*Client{sharing(t, server.URL(), n.URL, bounded)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			k := start(t, n)
			runs := 0
			rapid.Check(t, func(rt *rapid.T) {
				runs++
				n.requests()
				keptContract(t, rt, runs, n, k)
			})
		})
	}
}

// keptRecord is the one record that a key has on a chain.
func keptRecord(chain, key int) *ContractResult {
	number, index := uint64(0), uint64(key)
	return &ContractResult{
		Hash: common.BigToHash(big.NewInt(int64(key))), BlockHash: common.Hash{byte(chain), 1}, BlockNumber: &number, Index: &index,
		Input: bytes.Repeat([]byte{byte(chain), byte(key)}, key*key*7), // the longest is too long for the process
	}
}

func keptContract(t *testing.T, rt *rapid.T, run int, n *node, k keeping) {
	const keys, chains = 20, 3
	type place struct{ chain, key int }
	put, now := map[place]bool{}, 0
	turn := func(chain int) {
		now = chain
		n.set(earliestPath, fmt.Sprintf(`{"blocks":[{"number":0,"hash":"%s","timestamp":{"from":"1.0","to":"1.9"}}],"links":{"next":null}}`, chainHash(run, chain)))
		for _, relay := range k.relays {
			relay.Forget()
		}
	}
	get := func(relay *Client, key int) bool {
		want := keptRecord(now, key)
		got, err := relay.ContractResult(t.Context(), want.Hash)
		switch {
		case errors.Is(err, ErrNotFound): // the mirror node knows nothing: it was not kept
			return false
		case err != nil:
			rt.Fatalf("%d: %v", key, err)
		case !put[place{now, key}]:
			rt.Fatalf("%d of chain %d was not kept: %v", key, now, got)
		}
		if diff := sameRecord(want, got); diff != "" {
			rt.Fatalf("%d of chain %d (-want +got)\n%s", key, now, diff)
		}
		return true
	}
	keep := func(relay *Client, key int) { // what is kept was looked for before, by which a relay learns its chain
		get(relay, key)
		record := keptRecord(now, key)
		relay.keepResult(record.Hash, record)
		put[place{now, key}] = true
	}
	someKey, someRelay := rapid.IntRange(1, keys), rapid.SampledFrom(k.relays)
	actions := map[string]func(*rapid.T){
		"keep": func(rt *rapid.T) { keep(someRelay.Draw(rt, "relay"), someKey.Draw(rt, "key")) },
		"get":  func(rt *rapid.T) { get(someRelay.Draw(rt, "relay"), someKey.Draw(rt, "key")) },
		"turn": func(rt *rapid.T) { turn(rapid.IntRange(0, chains-1).Draw(rt, "chain")) },
		"": func(rt *rapid.T) {
			for _, relay := range k.relays {
				checkBounds(rt, relay.results)
			}
		},
	}
	if k.redis != nil {
		actions["spoil"] = func(rt *rapid.T) {
			record := keptRecord(now, someKey.Draw(rt, "key"))
			key := "lockstep:cache:" + chainHash(run, now)[2:18] + ":" + kindResult + ":" + record.Hash.Hex()
			raw := must.Get(encodeRecord(record))(t)
			spoilt := spoil(raw, rapid.IntRange(0, 3).Draw(rt, "how"))
			must.Until(t, "a spoilt record", func() bool { // a cluster that had no time may be down for a moment
				return k.redis.Set(t.Context(), key, spoilt, 0).Err() == nil
			})
		}
	}
	turn(0)
	rt.Repeat(actions)

	// What fits is kept, and all relays that share a store have it.
	const small = 1
	for _, relay := range k.relays {
		must.Until(t, "a record", func() bool {
			keep(k.relays[0], small)
			return get(relay, small)
		})
	}
}

func chainHash(run, chain int) string { return fmt.Sprintf("0x%08x%08x%048x", run, chain, 1) }

// spoil makes a record one that is not to be read: cut, empty, damaged, or of a version
// to come.
func spoil(raw []byte, how int) []byte {
	switch how {
	case 0:
		return raw[:len(raw)/2]
	case 1:
		return nil
	case 2:
		raw[len(raw)/2] ^= 1
		return raw
	}
	raw[0] = recordVersion + 1
	return withChecksum(raw[:len(raw)-checksumBytes])
}

func checkBounds[K comparable, V any](rt *rapid.T, c *cache[K, V]) {
	if c == nil {
		return
	}
	var sum int64
	for _, item := range c.lru.Values() {
		sum += item.bytes
	}
	if c.size() > keptEntries || c.bytes > keptBytes || c.bytes != sum {
		rt.Fatalf("%d records of %d bytes, counted as %d", c.size(), sum, c.bytes)
	}
}

// bad are the answers that are none, by their kind.
func bad() map[string]http.HandlerFunc {
	says := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fail(w, status, body) }
	}
	return map[string]http.HandlerFunc{
		"not found":         notFound,
		"throttled":         says(http.StatusTooManyRequests, ""),
		"broken":            says(http.StatusInternalServerError, `{"_status":{"messages":[{"message":"Internal error"}]}}`),
		"away":              says(http.StatusServiceUnavailable, "<html>"),
		"cut connection":    cutConnection,
		"cut answer":        cutBody,
		"cut text":          says(http.StatusOK, `{"number":17,"hash":"0x01`),
		"unreadable":        says(http.StatusOK, "<html>"),
		"of another kind":   says(http.StatusOK, `[]`),
		"immature":          immatureAnswer,
		"later page absent": secondPageAbsent,
	}
}

// immatureAnswer is the record as it is published before it is complete.
func immatureAnswer(w http.ResponseWriter, r *http.Request) {
	body := immature
	switch path := r.URL.Path; {
	case strings.Contains(path, "/results/logs"):
		body = `{"logs":[` + logJSON("0", "null") + `],"links":{"next":null}}`
	case strings.HasSuffix(path, "/results"):
		body = `{"results":[` + immature + `],"links":{"next":null}}`
	case strings.HasSuffix(path, "/blocks"):
		body = `{"blocks":[],"links":{"next":null}}`
	case strings.Contains(path, "/blocks/"):
		body = strings.Replace(blockJSON(17), `"1767225601.999999999"`, "null", 1)
	case !strings.Contains(path, "/contracts/"):
		notFound(w, r)
		return
	}
	_, _ = fmt.Fprint(w, body)
}

// secondPageAbsent begins lists well. What is not a list is not there.
func secondPageAbsent(w http.ResponseWriter, r *http.Request) {
	const next = `"links":{"next":"/api/v1/absent"}}`
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/results/logs"):
		_, _ = fmt.Fprint(w, `{"logs":[`+logJSON("5", "1")+`],`+next)
	case strings.HasSuffix(path, "/results"):
		_, _ = fmt.Fprint(w, `{"results":[`+resultJSON()+`],`+next)
	default:
		notFound(w, r)
	}
}

// Whatever goes wrong, it is not kept as an answer: not in this process and not for others.
func TestErrorsAreNotKept(t *testing.T) {
	server := redistest.Start(t)
	good := newNode(t)
	populate(good)
	chains := 0
	for kind, answer := range bad() {
		for _, read := range keptReads(t) {
			t.Run(kind+"/"+read.name, func(t *testing.T) {
				n := newNode(t)
				n.handler = answer
				chains++ // every case has records of its own
				oldest := strings.ReplaceAll(blocksJSON("null", 0), blockHash, fmt.Sprintf("0x%016x%048x", chains, 1))
				n.set(earliestPath, oldest)
				relay := sharing(t, server.URL(), n.URL, impatient)
				got, err := read.from(t.Context(), relay)
				if err == nil && !mayLack[kind] {
					t.Fatalf("%+v", got)
				}
				flushed(t, relay)
				populate(n)
				n.set(earliestPath, oldest)
				want := must.Get(read.from(t.Context(), connect(t, good.URL)))(t)
				for name, reader := range map[string]*Client{"the same relay": relay, "another one": sharing(t, server.URL(), n.URL)} {
					got, err := read.from(t.Context(), reader)
					if err != nil {
						t.Errorf("%s: %v", name, err)
					} else if diff := sameRecord(want, got); diff != "" {
						t.Errorf("%s (-want +got)\n%s", name, diff)
					}
				}
			})
		}
	}
}

// impatient waits for no mirror node that throttles.
func impatient(c *Config) { c.RetryBudget = 0 }

// mayLack are the kinds of which some reads make an answer that is good for now: an
// alias that is not there yet, a block that is still open.
var mayLack = map[string]bool{"not found": true, "immature": true, "later page absent": true}

// flushed waits until all that was put into the store has been written.
func flushed(t *testing.T, c *Client) {
	t.Helper()
	c.store.Put("flushed:"+t.Name(), []byte("yes")) // writes keep their order
	must.Until(t, "the writes", func() bool { return c.store.Get(t.Context(), "flushed:"+t.Name()) != nil })
}
