package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"lockstep/bench/naive"
	"lockstep/config"
	"lockstep/consensus"
	"lockstep/devnet"
	"lockstep/internal/proctest"
	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
	"lockstep/mirror"
)

// fleet is what a row stands on: a network, a Redis if it is wanted, and relays. close ends it all.
type fleet struct {
	lab    *lab
	net    *network
	redis  *redisServer // nil without
	relays []*relay
}

func (l *lab) fleet(ctx context.Context, withRedis bool, network ...string) (*fleet, error) {
	n, err := l.network(ctx, network...)
	if err != nil {
		return nil, err
	}
	b := &fleet{lab: l, net: n}
	if withRedis {
		if b.redis, err = l.redis(ctx); err != nil {
			b.close()
			return nil, err
		}
	}
	return b, nil
}

func (b *fleet) close() {
	for _, r := range b.relays {
		r.Kill()
	}
	if b.redis != nil {
		b.redis.Kill()
		_ = b.redis.admin.Close() // nothing is left to ask
	}
	b.net.Kill()
}

// start starts n relays, ours or the baseline's, over Redis or not.
func (b *fleet) start(ctx context.Context, n int, naive bool, r *redisServer, env ...string) (made []*relay, err error) {
	for range n {
		var one *relay
		if naive {
			one, err = b.lab.baseline(ctx, b.net, r)
		} else {
			one, err = b.lab.relay(ctx, b.net, r, env...)
		}
		if err != nil {
			return nil, err
		}
		made, b.relays = append(made, one), append(b.relays, one)
	}
	return made, nil
}

// relay is a relay's process: the lockstep program, or what it is compared with.
type relay struct {
	*process
	url, ws, admin string
	naive          bool
}

// relaySettings is what every relay on a network is given.
func relaySettings(n *network, r *redisServer) []string {
	nodes, _ := json.Marshal(n.Nodes) // a map of strings
	env := []string{
		"CHAIN_ID=0x12a",
		"HEDERA_NETWORK=" + string(nodes),
		"MIRROR_NODE_URL=" + n.URL,
		"OPERATOR_ID_MAIN=" + devnet.OperatorID(),
		"OPERATOR_KEY_MAIN=" + devnet.OperatorKey(),
		"OPERATOR_KEY_FORMAT=HEX_ECDSA",
		"SERVER_HOST=127.0.0.1", "SERVER_PORT=0",
		"RPC_WS_ENABLED=true", "WEB_SOCKET_PORT=0", "WS_CONNECTION_LIMIT=1000", "WS_CONNECTION_LIMIT_PER_IP=1000",
		"WS_MAX_IN_FLIGHT=4096",
		"ADMIN_ADDRESS=127.0.0.1:0", "ADMIN_LOOPBACK_TOKEN=false",
		"LOG_LEVEL=info", "PRETTY_LOGS_ENABLED=false",
		"RATE_LIMIT_DISABLED=true",
		"ENABLE_NONCE_ORDERING=true",
	}
	if r != nil {
		env = append(env, "REDIS_ENABLED=true", "REDIS_URL="+r.url())
	}
	return env
}

// relay starts the lockstep program in front of a network; r is nil for local order. It returns when the relay
// can serve.
func (l *lab) relay(ctx context.Context, n *network, r *redisServer, env ...string) (*relay, error) {
	p, err := l.start("relay", slices.Concat(relaySettings(n, r), l.settings, env), l.program, "serve")
	if err != nil {
		return nil, err
	}
	made := &relay{process: p}
	err = p.Says(ctx, startLimit, func(line []byte) bool {
		var record struct{ Msg, HTTP, WS, Admin string }
		if json.Unmarshal(line, &record) != nil || record.Msg != "relay is ready" {
			return false
		}
		made.url, made.ws, made.admin = "http://"+record.HTTP, "ws://"+record.WS, "http://"+record.Admin
		return true
	})
	if err != nil {
		return nil, err
	}
	err = p.up(ctx, func() error {
		if err := request(ctx, http.MethodGet, made.url+"/health/readiness", "", nil); err != nil || r == nil {
			return err
		}
		return made.onRedis(ctx)
	})
	return made, err
}

// onRedis fails until Redis decides the order.
func (r *relay) onRedis(ctx context.Context) error {
	m, err := r.metrics(ctx)
	if err == nil && m.sum("lockstep_lock_redis_up") != 1 {
		err = errors.New("the relay does not share its order through Redis")
	}
	return err
}

// baseline starts the naive relay.
func (l *lab) baseline(ctx context.Context, n *network, r *redisServer) (*relay, error) {
	return l.compared(ctx, relaySettings(n, r), "naive")
}

// compared starts a process of ours that is no relay of ours.
func (l *lab) compared(ctx context.Context, env []string, role string) (*relay, error) {
	p, at, err := l.role(ctx, env, role)
	return &relay{process: p, url: at.URL, naive: true}, err
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
	relay := &naive.Relay{Lock: naive.NewLocal(), Nodes: nodes, Mirror: reads}
	if cfg.Redis.Enabled {
		client, err := redisx.Open(cfg.Redis.URL.Reveal(), redisx.Options{PoolSize: 100})
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }()
		relay.Lock = naive.NewRedis(client)
	}
	defer func() { _ = nodes.Close() }()
	return serve(ctx, out, ready{}, relay, nodes.Run)
}

// echoRole is the main function of the baseline of cheap reads: the least that net/http can do for a request. It takes
// the body in and answers a constant.
func echoRole(ctx context.Context, out io.Writer) error {
	answer, kind := []byte(`{"jsonrpc":"2.0","id":1,"result":"0x12a"}`), []string{"application/json"}
	return serve(ctx, out, ready{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	lab   *lab
	port  int // nobody else's as long as the suite runs
	admin redis.UniversalClient
}

// redis starts a server.
func (l *lab) redis(ctx context.Context) (s *redisServer, err error) {
	s = &redisServer{lab: l}
	if s.port, _, err = proctest.KeepPort(); err != nil {
		return nil, err
	}
	if s.admin, err = redisx.Open(s.url(), redisx.Options{Timeout: 2 * time.Second}); err != nil {
		return nil, err
	}
	return s, s.launch(ctx)
}

// launch starts the process, or starts it again after Kill.
func (s *redisServer) launch(ctx context.Context) error {
	p, err := redistest.Run(ctx, s.lab.dir, s.port)
	if err == nil {
		s.process = s.lab.started(p, "redis")
	}
	return err
}

func (s *redisServer) url() string { return fmt.Sprintf("redis://127.0.0.1:%d", s.port) }

var (
	statLine = regexp.MustCompile(`cmdstat_([^:]+):calls=(\d+)`)
	cpuLine  = regexp.MustCompile(`used_cpu_(?:sys|user):([\d.]+)`)
	// own are the commands of the suite. The lock and the baseline use none of them.
	own = map[string]bool{"info": true, "ping": true}
)

// spent is what a server has done so far: commands, those inside scripts included, and processor time in seconds, finer
// than /proc has it.
func (s *redisServer) spent(ctx context.Context) (commands, cpu float64, err error) {
	info, err := s.admin.Info(ctx, "all").Result()
	if err != nil {
		return 0, 0, err
	}
	add := func(to *float64, text string) {
		v, parseErr := strconv.ParseFloat(text, 64)
		*to += v
		err = errors.Join(err, parseErr)
	}
	for _, m := range statLine.FindAllStringSubmatch(info, -1) {
		if !own[m[1]] {
			add(&commands, m[2])
		}
	}
	for _, m := range cpuLine.FindAllStringSubmatch(info, -1) {
		add(&cpu, m[1])
	}
	return commands, cpu, err
}

// behave changes the conduct of the network.
func (n *network) behave(ctx context.Context, c conduct) error {
	var body bytes.Buffer
	if err := json.NewEncoder(&body).Encode(c); err != nil {
		return err
	}
	return request(ctx, http.MethodPut, n.URL+"/suite/conduct", body.String(), nil)
}

// spoil replaces the rules by which calls are spoiled; see package faults.
func (n *network) spoil(ctx context.Context, rules string) error {
	return request(ctx, http.MethodPut, n.URL+"/faults", rules, nil)
}

// arrivals returns the submissions of the present run so far.
func (n *network) arrivals(ctx context.Context) ([]arrival, error) {
	var list []arrival
	err := request(ctx, http.MethodGet, fmt.Sprintf("%s/suite/arrivals?since=%d", n.URL, n.seen), "", &list)
	return list, err
}

// mark starts a run: what has arrived by now does not belong to it.
func (n *network) mark(ctx context.Context) error {
	list, err := n.arrivals(ctx)
	n.seen += len(list)
	return err
}

// add makes blocks of an archive.
func (n *network) add(ctx context.Context, count int) (made filled, err error) {
	err = request(ctx, http.MethodPost, fmt.Sprintf("%s/suite/blocks?count=%d", n.URL, count), "", &made)
	return made, err
}

// calls is how many requests of the mirror node's API there were.
func (n *network) calls(ctx context.Context) (calls float64, err error) {
	err = request(ctx, http.MethodGet, n.URL+"/suite/calls", "", &calls)
	return calls, err
}
