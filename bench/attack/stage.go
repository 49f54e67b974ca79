package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/proctest"
	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
	"lockstep/internal/sleep"
)

// What the relay is connected with for some attacks.

// redisMemory is what the Redis of an attack may use.
const redisMemory = "32mb"

// smallRedis starts a Redis that refuses writes when its memory is full.
func smallRedis(ctx context.Context, l *lab) (settings []string, end func(), err error) {
	port, release, err := proctest.KeepPort()
	if err != nil {
		return nil, nil, err
	}
	server, err := redistest.Run(ctx, l.dir, port, "--maxmemory", redisMemory, "--maxmemory-policy", "noeviction")
	if err != nil {
		release()
		return nil, nil, err
	}
	l.redis = fmt.Sprintf("redis://127.0.0.1:%d", port)
	return []string{"REDIS_URL=" + l.redis}, func() { server.Kill(); release() }, nil
}

var memoryLine = regexp.MustCompile(`(?m)^(used_memory|maxmemory):(\d+)`)

// locksGoOn tells what the filters left of Redis, and whether a sender's order still goes through it.
func locksGoOn(ctx context.Context, t *target) error {
	client, err := redisx.Open(t.redis, redisx.Options{Timeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	used, err := memoryOf(ctx, client)
	if err != nil {
		return err
	}
	t.say("Redis has %.0f %% of %s in use", 100*used, redisMemory)
	const most = 0.9 // a quarter is the locks'; filters that come at once may take a little of it
	if used > most {
		t.wrong("filters have taken %.0f %% of the memory of Redis", 100*used)
	}
	if err := t.sendNext(ctx, orderedSender); err != nil {
		return err
	}
	metrics, err := t.metrics(ctx)
	if err != nil {
		return err
	}
	for _, line := range []string{"lockstep_lock_redis_up 1", `rpc_relay_lock_acquisitions_total{status="success",strategy="redis"} 1`} {
		if !strings.Contains(metrics, "\n"+line+"\n") {
			t.wrong("the locks have lost Redis: no line %s", line)
		}
	}
	return nil
}

// memoryOf returns which part of its memory a Redis uses.
func memoryOf(ctx context.Context, client redis.UniversalClient) (float64, error) {
	text, err := client.Info(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	value := map[string]float64{}
	for _, match := range memoryLine.FindAllStringSubmatch(text, -1) {
		value[match[1]], _ = strconv.ParseFloat(match[2], 64)
	}
	if value["maxmemory"] == 0 {
		return 0, errors.New("no maxmemory in what Redis tells of itself")
	}
	return value["used_memory"] / value["maxmemory"], nil
}

func (t *target) metrics(ctx context.Context) (string, error) {
	text, err := get(ctx, t.url+"/metrics")
	return string(text), err
}

func get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	return io.ReadAll(response.Body)
}

// longAnswer is how long a spoiled mirror node's lists of logs are: longer than the relay reads.
const longAnswer = 48 << 20

// longAnswers puts a mirror node before the network's own whose lists of logs are longer than any that there is.
func longAnswers(ctx context.Context, l *lab) (settings []string, end func(), err error) {
	mirror, err := url.Parse(l.ready.Mirror)
	if err != nil {
		return nil, nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	row := []byte(`{"address":"0x` + strings.Repeat("0", 40) + `","data":"0x` + strings.Repeat("0", 64<<10) + `"},`)
	honest := httputil.NewSingleHostReverseProxy(mirror)
	honest.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // of requests that the relay gave up
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/results/logs") {
			honest.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, err := io.WriteString(w, `{"logs":[`)
		for sent := 0; sent < longAnswer && err == nil; sent += len(row) { // until the relay has had enough
			_, err = w.Write(row)
		}
	})}
	go func() { _ = server.Serve(listener) }() // it ends with Close
	return []string{"MIRROR_NODE_URL=http://" + listener.Addr().String()}, func() { _ = server.Close() }, nil
}

// searchAnew searches the logs of a contract of its own each time, so that no two searches are one.
func searchAnew(ctx context.Context, c *client) {
	for n := 0; ctx.Err() == nil; n++ {
		search := call("eth_getLogs", fmt.Sprintf(`{"fromBlock":"0x1","toBlock":"latest","address":"0x%020x%020x"}`, c.number+1, n))
		if _, err := c.send(ctx, search); err != nil {
			sleep.For(ctx, 10*time.Millisecond)
		}
	}
}

// longFilters makes filters that are as long as filters can be, 72 KB each, until the attack is over.
func longFilters(ctx context.Context, c *client) {
	const topics, words, addresses = 4, 100, 1000
	var list strings.Builder
	for i := range addresses {
		fmt.Fprintf(&list, `,"0x%040x"`, i+1)
	}
	places := list.String()[1:]
	for n := 0; ctx.Err() == nil; n++ {
		var lists [topics]string
		for topic := range lists {
			list.Reset()
			for i := range words {
				fmt.Fprintf(&list, `,"0x%016x%016x%032x"`, c.number, n, i)
			}
			lists[topic] = "[" + list.String()[1:] + "]"
		}
		if _, err := c.send(ctx, call("eth_newFilter", `{"address":[`+places+`],"topics":[`+strings.Join(lists[:], ",")+`]}`)); err != nil {
			sleep.For(ctx, 10*time.Millisecond)
		}
	}
}

// lookUps is how the relay's metrics call the look-up of one transaction.
const lookUps = `method="contracts/results/{transactionIdOrHash}"`

// countLookUps counts what the relay asked the mirror node for while clients asked for a transaction that there is not: whether
// it is there, which logs it has, and why it is not there. Time says less: it is the machine's, too.
func countLookUps(ctx context.Context, t *target) error {
	metrics, err := t.metrics(ctx)
	if err != nil {
		return err
	}
	var all, looked int
	for line := range strings.Lines(metrics) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), "} ")
		count, err := strconv.Atoi(number)
		if !strings.HasPrefix(name, "rpc_relay_mirror_response_count{") || err != nil {
			continue
		}
		if all += count; strings.Contains(name, lookUps) {
			looked += count
		}
	}
	const others = 200 // for the transactions that left logs, and for the head of the chain
	t.say("%d look-ups, %d requests to the mirror node", looked, all)
	if looked == 0 || all > 3*looked+others {
		t.wrong("%d look-ups of a transaction cost %d requests to the mirror node", looked, all)
	}
	return nil
}
