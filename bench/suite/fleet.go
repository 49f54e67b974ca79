package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
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
