package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/internal/proctest"
	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
	"lockstep/internal/sleep"
)

// lab is the network and the place for logs.
type lab struct {
	program string
	dir     string
	race    bool  // the program reports its data races into files in dir
	enough  int64 // memory of a relay after an attack at which nobody waits for less
	network *proctest.Process
	echo    *proctest.Process
	echoURL string
	redis   string // of the attack's relay, if it has one
	console string // host and port by which its clients reach the console, if it has one
	ready   struct {
		Consensus, Mirror string
		Accounts          []struct{ ID, Address, PrivateKey string }
	}
}

// open starts the network.
func open(ctx context.Context, program string, race bool) (l *lab, err error) {
	l = &lab{race: race}
	if race {
		if err := builtWithRace(program); err != nil {
			return nil, err
		}
	}
	if err := l.openEcho(ctx); err != nil {
		return nil, err
	}
	if l.program, err = filepath.Abs(program); err != nil {
		return nil, err
	}
	if l.dir, err = os.MkdirTemp("", "attack-*"); err != nil {
		return nil, err
	}
	if l.network, err = proctest.Start(l.command(ctx, nil, "devnet", "--json", "--mirror", "127.0.0.1:0", "--consensus", "127.0.0.1:0")); err != nil {
		return nil, err
	}
	return l, l.network.Says(ctx, startLimit, func(line []byte) bool { return json.Unmarshal(line, &l.ready) == nil && l.ready.Mirror != "" })
}

// startLimit is for a process to be ready; the machine may be busy.
const startLimit = 2 * time.Minute

func (l *lab) command(ctx context.Context, env []string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, l.program, args...)
	c.Dir = l.dir // no .env file of the caller's
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "TMPDIR=" + os.TempDir()}, env...)
	if l.race {
		c.Env = append(c.Env, "GORACE=halt_on_error=1 log_path="+filepath.Join(l.dir, raceLog))
	}
	return c
}

// raceLog is how the names of the race detector's files begin; a process id follows.
const raceLog = "race"

// builtWithRace tells whether a program would notice a data race at all.
func builtWithRace(program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	if !slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return fmt.Errorf("%s was not built with -race", program)
	}
	return nil
}

// races returns what the race detector found so far as an error.
func (l *lab) races() error {
	files, err := filepath.Glob(filepath.Join(l.dir, raceLog+".*"))
	if err != nil || len(files) == 0 {
		return err
	}
	report, err := os.ReadFile(files[0])
	return errors.Join(fmt.Errorf("%d processes had a data race; the first one:\n%s", len(files), report), err)
}

func (l *lab) close() {
	l.network.Kill()
	l.echo.Kill()
	_ = os.RemoveAll(l.dir)
}

// target is the relay that is attacked.
type target struct {
	*lab
	process  *proctest.Process
	url, ws  string
	answered atomic.Int64
	refused  atomic.Int64
	mu       sync.Mutex
	note     string    // guarded by mu
	wrongs   []string  // guarded by mu; what must not be
	clients  int       // of the attack
	began    time.Time // the attack
	signed   []string  // transactions that its clients send
}

// relay starts a relay with its defaults and what an attack needs.
func (l *lab) relay(ctx context.Context, settings []string) (*target, error) {
	nodes, err := json.Marshal(map[string]string{l.ready.Consensus: "0.0.3"})
	if err != nil {
		return nil, err
	}
	operator := l.ready.Accounts[0]
	t := &target{lab: l}
	t.process, err = proctest.Start(l.command(ctx, slices.Concat([]string{
		"CHAIN_ID=0x12a", "HEDERA_NETWORK=" + string(nodes), "MIRROR_NODE_URL=" + l.ready.Mirror,
		"OPERATOR_ID_MAIN=" + operator.ID, "OPERATOR_KEY_MAIN=" + operator.PrivateKey, "OPERATOR_KEY_FORMAT=HEX_ECDSA",
		"SERVER_HOST=127.0.0.1", "SERVER_PORT=0", "RPC_WS_ENABLED=true", "WEB_SOCKET_PORT=0", "PRETTY_LOGS_ENABLED=false",
	}, settings), "serve"))
	if err != nil {
		return nil, err
	}
	return t, t.process.Says(ctx, startLimit, func(line []byte) bool {
		var record struct{ Msg, HTTP, WS string }
		if json.Unmarshal(line, &record) != nil || record.Msg != "relay is ready" {
			return false
		}
		t.url, t.ws = "http://"+record.HTTP, "ws://"+record.WS
		return true
	})
}

// rss is the relay's resident memory in bytes, 0 if it cannot be had.
func (t *target) rss() int64 {
	bytes, _ := t.process.Memory(proctest.Resident)
	return int64(bytes)
}

// count counts an answer by what is in it.
func (t *target) count(status int, answer []byte) {
	if status == http.StatusOK && bytes.Contains(answer, []byte(`"result"`)) {
		t.answered.Add(1)
	}
	if refusals := int64(bytes.Count(answer, []byte(`"error"`))); refusals > 0 {
		t.refused.Add(refusals)
	}
}

// wrong notes something that must not be; of many such things the first few are enough.
func (t *target) wrong(format string, args ...any) {
	const few = 5
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.wrongs) < few {
		t.wrongs = append(t.wrongs, fmt.Sprintf(format, args...))
	}
}

func (t *target) say(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.note = fmt.Sprintf(format, args...)
}

// result is a row of the table.
type result struct {
	peak, after       int64
	before, during    pair // the honest clients' p99
	answered, refused int64
	counted           bool // the work is counted: times are not judged
	note              string
	wrongs            []string // what must not be
}

// What an attack may cost.
const (
	mostMemory  = 512 << 20
	mostLatency = 50 * time.Millisecond // of an honest client's slowest hundredth, times the machine's noise
)

// verdict is all that must not be. Times are not judged under the race detector, nor is memory.
func (r *result) verdict(race bool) []string {
	all := slices.Clone(r.wrongs)
	if race {
		return all
	}
	if r.peak > mostMemory {
		all = append(all, fmt.Sprintf("the relay took %d MB of memory, and %d may be", r.peak>>20, mostMemory>>20))
	}
	switch may := time.Duration(float64(mostLatency) * r.noise()); {
	case r.during.relay == refused:
		all = append(all, "an honest client was refused")
	case r.during.relay > may && !r.counted:
		all = append(all, fmt.Sprintf("an honest client's slowest hundredth took %v, and %v may be on this machine", r.during.relay, may))
	}
	return all
}

// pair is what was measured at the same time of the relay and of the server that does nothing.
type pair struct{ relay, echo time.Duration }

// noise is how much slower than before a server that does nothing was under the attack.
func (r *result) noise() float64 { return max(1, float64(r.during.echo)/float64(r.before.echo)) }

// attack does one attack.
func (l *lab) attack(ctx context.Context, a attack, clients int, length, rest time.Duration) (result, error) {
	settings := a.settings
	if a.stage != nil {
		more, end, err := a.stage(ctx, l)
		if err != nil {
			return result{}, err
		}
		defer end()
		settings = slices.Concat(settings, more)
	}
	t, err := l.relay(ctx, settings)
	if err != nil {
		return result{}, err
	}
	defer t.process.Kill()
	t.clients, t.began = clients, time.Now()
	if a.prepare != nil {
		if err := a.prepare(ctx, t); err != nil {
			return result{}, err
		}
	}
	r := result{counted: a.counted}
	quiet, end := context.WithTimeout(ctx, length/3)
	r.before = t.honest(quiet)
	end()
	under, end := context.WithTimeout(ctx, length)
	if a.whole {
		end()
		under, end = context.WithCancel(ctx)
	}
	defer end()
	ends := time.Now().Add(length)
	watched := make(chan int64, 1)
	go func() { watched <- t.watch(under) }()
	var group sync.WaitGroup
	for i := range clients {
		c := client{target: t, url: t.url, number: i, http: &http.Client{Transport: &http.Transport{MaxIdleConns: 4, MaxIdleConnsPerHost: 4, DisableCompression: true}}}
		group.Go(func() {
			defer c.http.CloseIdleConnections()
			a.run(under, &c)
		})
	}
	if a.whole {
		go func() {
			group.Wait()
			sleep.For(under, time.Until(ends))
			end()
		}()
	}
	r.during = t.honest(under)
	group.Wait()
	r.peak = <-watched
	for end := time.Now().Add(rest); time.Now().Before(end) && t.rss() > l.enough && ctx.Err() == nil; {
		sleep.For(ctx, min(100*time.Millisecond, time.Until(end)))
	}
	r.after, r.answered, r.refused = t.rss(), t.answered.Load(), t.refused.Load()
	if a.check != nil {
		if err := a.check(ctx, t); err != nil {
			return r, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r.note, r.wrongs = t.note, t.wrongs
	return r, errors.Join(ctx.Err(), l.races())
}

// watch returns the most memory that the relay has until the context ends.
func (t *target) watch(ctx context.Context) (peak int64) {
	for ctx.Err() == nil {
		peak = max(peak, t.rss())
		sleep.For(ctx, 10*time.Millisecond)
	}
	return max(peak, t.rss())
}

// refused stands for the time of an answer that an honest client did not get.
const refused = time.Hour

// honest asks the relay for the chain id, and the echo server for the same text, until the
// context ends, and returns the p99 of both.
func (t *target) honest(ctx context.Context) (p pair) {
	echo := make(chan time.Duration, 1)
	go func() { echo <- t.ask(ctx, t.echoURL, "eth_chainId") }()
	p.relay = t.ask(ctx, t.url, `"0x12a"`)
	p.echo = <-echo
	return p
}

// ask asks for the chain id until the context ends and returns the p99; refused if there was an
// answer without the text that is wanted.
func (t *target) ask(ctx context.Context, url, want string) time.Duration {
	c := client{target: t, url: url, number: honestNumber, http: &http.Client{Transport: new(http.Transport)}}
	defer c.http.CloseIdleConnections()
	var times []time.Duration
	for {
		start := time.Now()
		answer, err := c.send(context.WithoutCancel(ctx), call("eth_chainId"))
		if err == nil && strings.Contains(string(answer), want) {
			times = append(times, time.Since(start))
		} else {
			times = append(times, refused)
		}
		sleep.For(ctx, 2*time.Millisecond)
		if ctx.Err() != nil {
			break
		}
	}
	slices.Sort(times)
	if times[len(times)-1] == refused {
		return refused
	}
	return times[len(times)*99/100]
}

// The machine's noise is measured by a server that does nothing: net/http alone, in a process of
// its own, sends back what it gets. It is asked in the same way and at the same time as the
// relay by a client that does nothing but that.

// echoCommand is the argument with which this program is that server.
const echoCommand = "echo"

// serveEcho serves until it is killed, and prints its address.
func serveEcho(ctx context.Context, out io.Writer) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, listener.Addr()); err != nil {
		return err
	}
	const most = 1 << 10
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, io.LimitReader(r.Body, most)) // a client that has gone
	})}
	return server.Serve(listener)
}

// openEcho starts the server.
func (l *lab) openEcho(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if l.echo, err = proctest.Start(exec.CommandContext(ctx, self, echoCommand)); err != nil {
		return err
	}
	return l.echo.Says(ctx, startLimit, func(line []byte) bool {
		l.echoURL = "http://" + strings.TrimSpace(string(line))
		return true
	})
}

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
