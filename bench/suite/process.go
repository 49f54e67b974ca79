package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"lockstep/bench/naive"
	"lockstep/config"
	"lockstep/consensus"
	"lockstep/devnet"
	"lockstep/internal/httpserve"
	"lockstep/internal/proctest"
	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
	"lockstep/mirror"
)

// startLimit is for a process to be ready; the machine may be busy.
const startLimit = 2 * time.Minute

// process is a running program.
type process struct {
	*proctest.Process
	name string
}

// spawn runs a program with the environment given and nothing else, in no directory with an .env file of the caller's.
func (s *scenario) spawn(name string, env []string, program string, args ...string) *process {
	cmd := exec.Command(program, args...) //nolint:noctx // ended by Kill
	cmd.Dir = s.dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "TMPDIR=" + os.TempDir()}, env...)
	p, err := proctest.Start(cmd)
	return s.started(name, p, err)
}

// started ends a process with the scenario.
func (s *scenario) started(name string, p *proctest.Process, err error) *process {
	s.must(err)
	s.atEnd(p.Kill)
	return &process{p, name}
}

// ready waits until f succeeds.
func (s *scenario) ready(p *process, f func() error) { s.must(p.Until(s.ctx, startLimit, f)) }

// says waits for a line of the log that read takes.
func (s *scenario) says(p *process, read func(line []byte) bool) {
	s.must(p.Says(s.ctx, startLimit, read))
}

// cpu returns user and system time of the process in seconds, NaN if it cannot be had.
func (p *process) cpu() float64 {
	const ticks = 100 // per second; the unit of /proc on every Linux that Go runs on
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Cmd.Process.Pid))
	if err != nil {
		return math.NaN()
	}
	const fields = `(?s)^.*\) ` // the name, in parentheses, may contain anything
	return (sum(text, fields+`(?:\S+ ){11}(\d+)`) + sum(text, fields+`(?:\S+ ){12}(\d+)`)) / ticks
}

// memory returns what the process has in bytes, NaN if it cannot be had.
func (p *process) memory(kind string) float64 {
	bytes, err := p.Memory(kind)
	if err != nil {
		return math.NaN()
	}
	return float64(bytes)
}

func memoryOf(relays []*relay, kind string) (total float64) {
	for _, r := range relays {
		total += r.memory(kind)
	}
	return total
}

func cpuOf(relays []*relay) (total float64) {
	for _, r := range relays {
		total += r.cpu()
	}
	return total
}

// role starts a process of ours that is no relay of ours: this program with the arguments given. It says where it is.
func (s *scenario) role(env []string, args ...string) *relay {
	r := &relay{process: s.spawn(args[0], env, s.self, args...), naive: true}
	s.says(r.process, func(line []byte) bool { r.url = strings.TrimSpace(string(line)); return true })
	return r
}

// serve is what the process of a role does: it says where it is, and serves until ctx ends, with more beside it.
func serve(ctx context.Context, out io.Writer, handler http.Handler, beside ...func(context.Context) error) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "http://%s\n", l.Addr()); err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: startLimit}
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range beside {
		group.Go(func() error { return run(ctx) })
	}
	group.Go(func() error { return httpserve.Until(ctx, server, l, 0) })
	return group.Wait()
}

// request makes a HTTP request that has to succeed.
func request(ctx context.Context, method, url, body string) ([]byte, error) {
	status, text, err := exchange(ctx, http.DefaultClient, method, url, body)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s %s: %d: %s", method, url, status, text)
	}
	return text, err
}

// call makes one JSON-RPC call. answered is false if the relay said nothing.
func call(ctx context.Context, client *http.Client, url, body string, into any) (answered bool, err error) {
	var answer struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	_, text, err := exchange(ctx, client, http.MethodPost, url, body)
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	switch {
	case err != nil:
		return false, err
	case answer.Error != nil:
		return true, errors.New(answer.Error.Message)
	}
	return true, json.Unmarshal(answer.Result, into)
}

func exchange(ctx context.Context, client *http.Client, method, url, body string) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// ask is the text of a request. A parameter of type literal is JSON already.
func ask(method string, params ...any) string {
	parts := make([]string, len(params))
	for i, p := range params {
		if text, ok := p.(string); ok {
			p = strconv.Quote(text)
		}
		parts[i] = fmt.Sprint(p)
	}
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":[` + strings.Join(parts, ",") + `]}`
}

// sum adds up the numbers that a pattern finds in a text.
func sum(text []byte, pattern string) (total float64) {
	for _, found := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
		number, _ := strconv.ParseFloat(string(found[1]), 64) // the pattern takes nothing else
		total += number
	}
	return total
}

// metric is one of a relay of ours, all its label sets together; 0 of a baseline.
func (r *relay) metric(ctx context.Context, name string) (float64, error) {
	if r.naive {
		return 0, nil
	}
	text, err := request(ctx, http.MethodGet, r.url+"/metrics", "")
	return sum(text, `(?m)^`+name+`(?:\{.*\})? (\S+)$`), err
}

// live returns the memory of the relays' Go heaps after a collection, and of the stacks, in bytes.
func (s *scenario) live(relays []*relay) (total float64) {
	for _, r := range relays {
		text, err := request(s.ctx, http.MethodGet, r.admin+"/debug/pprof/heap?gc=1&debug=1", "")
		s.must(err)
		total += sum(text, `(?m)^# (?:HeapAlloc|Stack) = (\d+)`)
	}
	return total
}

// fleet is what a row stands on: a network, a Redis if it is wanted, and relays.
type fleet struct {
	*scenario
	net    *network
	redis  *redisServer // nil without
	relays []*relay
}

func (s *scenario) fleet(withRedis bool, latency time.Duration) *fleet {
	b := &fleet{scenario: s, net: s.network(latency, 0)}
	if withRedis {
		b.redis = s.newRedis()
	}
	return b
}

// start starts n relays, ours or the baseline's, over the fleet's Redis or not.
func (b *fleet) start(n int, naive, shared bool, env ...string) (made []*relay) {
	var r *redisServer
	if shared {
		r = b.redis
	}
	for range n {
		if naive {
			made = append(made, b.role(relaySettings(b.net, r), "naive"))
		} else {
			made = append(made, b.relay(b.net, r, env...))
		}
	}
	b.relays = append(b.relays, made...)
	return made
}

// relay is a relay's process: the lockstep program, or what it is compared with.
type relay struct {
	*process
	url, ws, admin string
	naive          bool
}

// relaySettings is what every relay on a network is given.
func relaySettings(n *network, r *redisServer) []string {
	nodes, _ := json.Marshal(n.chain.Nodes()) // a map of strings
	env := []string{
		"CHAIN_ID=0x12a", "HEDERA_NETWORK=" + string(nodes), "MIRROR_NODE_URL=" + n.URL,
		"OPERATOR_ID_MAIN=" + devnet.OperatorID(), "OPERATOR_KEY_MAIN=" + devnet.OperatorKey(), "OPERATOR_KEY_FORMAT=HEX_ECDSA",
		"SERVER_HOST=127.0.0.1", "SERVER_PORT=0",
		"RPC_WS_ENABLED=true", "WEB_SOCKET_PORT=0", "WS_CONNECTION_LIMIT=1000", "WS_CONNECTION_LIMIT_PER_IP=1000",
		"WS_MAX_IN_FLIGHT=4096", "ADMIN_ADDRESS=127.0.0.1:0", "ADMIN_LOOPBACK_TOKEN=false",
		"LOG_LEVEL=info", "PRETTY_LOGS_ENABLED=false", "RATE_LIMIT_DISABLED=true", "ENABLE_NONCE_ORDERING=true",
	}
	if r != nil {
		env = append(env, "REDIS_ENABLED=true", "REDIS_URL="+r.url())
	}
	return env
}

// relay starts the lockstep program in front of a network; r is nil for local order. It returns when the relay
// can serve.
func (s *scenario) relay(n *network, r *redisServer, env ...string) *relay {
	made := &relay{process: s.spawn("relay", append(relaySettings(n, r), env...), s.program, "serve")}
	s.says(made.process, func(line []byte) bool {
		var record struct{ Msg, HTTP, WS, Admin string }
		if json.Unmarshal(line, &record) != nil || record.Msg != "relay is ready" {
			return false
		}
		made.url, made.ws, made.admin = "http://"+record.HTTP, "ws://"+record.WS, "http://"+record.Admin
		return true
	})
	s.ready(made.process, func() error {
		if _, err := request(s.ctx, http.MethodGet, made.url+"/health/readiness", ""); err != nil || r == nil {
			return err
		}
		return made.onRedis(s.ctx)
	})
	return made
}

// onRedis fails until Redis decides the order.
func (r *relay) onRedis(ctx context.Context) error {
	up, err := r.metric(ctx, "lockstep_lock_redis_up")
	if err == nil && up != 1 {
		err = errors.New("the relay does not share its order through Redis")
	}
	return err
}

// naiveRole is the main function of the baseline's process. It takes the settings of a relay from the environment.
func naiveRole(ctx context.Context, out io.Writer) error {
	cfg, err := config.Load(os.Environ())
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	nodes, err := consensus.New(cfg.Consensus, log)
	if err != nil {
		return err
	}
	reads, err := mirror.New(cfg.Mirror, mirror.Options{Log: log})
	if err != nil {
		return err
	}
	relay := &naive.Relay{Lock: new(naive.Local), Nodes: nodes, Mirror: reads}
	if cfg.Redis.Enabled {
		client, err := redisx.Open(cfg.Redis.URL.Reveal(), redisx.Options{PoolSize: 100})
		if err != nil {
			return err
		}
		relay.Lock = naive.NewRedis(client)
	}
	return serve(ctx, out, relay, nodes.Run)
}

// echoRole is the main function of the baseline of cheap reads: the least that net/http can do for a request. It takes
// the body in and answers a constant.
func echoRole(ctx context.Context, out io.Writer) error {
	answer, kind := []byte(`{"jsonrpc":"2.0","id":1,"result":"0x12a"}`), []string{"application/json"}
	return serve(ctx, out, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return // the client is gone
		}
		w.Header()["Content-Type"] = kind
		_, _ = w.Write(answer) // as above
	}))
}

// redisServer is one redis-server without persistence.
type redisServer struct {
	*process
	port  int // nobody else's until the scenario ends
	admin redis.UniversalClient
}

// newRedis starts a server.
func (s *scenario) newRedis() *redisServer {
	port, release, err := proctest.KeepPort()
	s.must(err)
	s.atEnd(release)
	r := &redisServer{port: port}
	r.admin, err = redisx.Open(r.url(), redisx.Options{Timeout: 2 * time.Second})
	s.must(err)
	s.atEnd(func() { _ = r.admin.Close() }) // nothing is left to ask
	s.launch(r)
	return r
}

// launch starts the process, or starts it again after Kill.
func (s *scenario) launch(r *redisServer) {
	p, err := redistest.Run(s.ctx, s.dir, r.port)
	r.process = s.started("redis", p, err)
}

func (s *redisServer) url() string { return fmt.Sprintf("redis://127.0.0.1:%d", s.port) }

// spent is what a server has done so far: commands, those inside scripts included, and processor time in seconds, finer
// than /proc has it. The suite's own commands do not count; the lock and the baseline use none of them.
func (s *redisServer) spent(ctx context.Context) (commands, cpu float64, err error) {
	text, err := s.admin.Info(ctx, "all").Bytes()
	commands = sum(text, `cmdstat_[^:]+:calls=(\d+)`) - sum(text, `cmdstat_(?:info|ping):calls=(\d+)`)
	return commands, sum(text, `used_cpu_(?:sys|user):([\d.]+)`), err
}
