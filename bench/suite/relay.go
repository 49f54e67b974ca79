package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/devnet"
)

// relay is a relay's process: the lockstep program or the baseline.
type relay struct {
	*process
	url, ws, admin string
	naive          bool
}

// relaySettings is what every relay on a network is given.
func relaySettings(n *network, r *redisServer) ([]string, error) {
	nodes, err := json.Marshal(n.Nodes)
	if err != nil {
		return nil, err
	}
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
	return env, nil
}

// relay starts the lockstep program in front of a network; r is nil for local order. It returns when the relay
// can serve.
func (l *lab) relay(ctx context.Context, n *network, r *redisServer, env ...string) (*relay, error) {
	made, err := l.listeningRelay(ctx, n, r, env...)
	if err != nil {
		return nil, err
	}
	err = made.serving(ctx)
	if err == nil && r != nil {
		err = made.onRedis(ctx, startLimit)
	}
	if err != nil {
		made.kill()
		return nil, err
	}
	return made, nil
}

// listeningRelay is relay for one that cannot serve, since what it needs is away. It returns when the ports are open.
func (l *lab) listeningRelay(ctx context.Context, n *network, r *redisServer, env ...string) (*relay, error) {
	settings, err := relaySettings(n, r)
	if err != nil {
		return nil, err
	}
	p, err := l.start("relay", slices.Concat(settings, l.settings, env), l.program, "serve")
	if err != nil {
		return nil, err
	}
	made := &relay{process: p}
	err = p.ready(ctx, func(line []byte) bool {
		var record struct{ Msg, HTTP, WS, Admin string }
		if json.Unmarshal(line, &record) != nil || record.Msg != "relay is ready" {
			return false
		}
		made.url, made.ws, made.admin = "http://"+record.HTTP, "ws://"+record.WS, "http://"+record.Admin
		return true
	})
	if err != nil {
		p.kill()
		return nil, err
	}
	return made, nil
}

// baseline starts the naive relay.
func (l *lab) baseline(ctx context.Context, n *network, r *redisServer) (*relay, error) {
	settings, err := relaySettings(n, r)
	if err != nil {
		return nil, err
	}
	p, err := l.start("naive", settings, l.self, "naive")
	if err != nil {
		return nil, err
	}
	return p.asBaseline(ctx)
}

// asBaseline waits until a process of ours that is no relay of ours says where it is.
func (p *process) asBaseline(ctx context.Context) (*relay, error) {
	made := &relay{process: p, naive: true}
	err := p.ready(ctx, func(line []byte) bool {
		var ready naiveReady
		if json.Unmarshal(line, &ready) != nil || !ready.Naive {
			return false
		}
		made.url, made.ws = ready.URL, ready.WS
		return true
	})
	if err != nil {
		p.kill()
		return nil, err
	}
	return made, nil
}

func (r *relay) serving(ctx context.Context) error {
	return poll(ctx, startLimit, 20*time.Millisecond, func() error {
		var text string
		return request(ctx, http.MethodGet, r.url+"/health/readiness", "", &text)
	})
}

var errNotOnRedis = errors.New("the relay does not share its order through Redis")

// onRedis waits until Redis decides the order.
func (r *relay) onRedis(ctx context.Context, limit time.Duration) error {
	return poll(ctx, limit, 5*time.Millisecond, func() error {
		m, err := r.metrics(ctx)
		if err != nil {
			return err
		}
		if m.sum("lockstep_lock_redis_up") != 1 {
			return errNotOnRedis
		}
		return nil
	})
}

// metrics are the samples of a relay by name, labels included.
type metrics map[string]float64

func (r *relay) metrics(ctx context.Context) (metrics, error) {
	if r.naive {
		return metrics{}, nil
	}
	var text string
	if err := request(ctx, http.MethodGet, r.url+"/metrics", "", &text); err != nil {
		return nil, err
	}
	m := metrics{}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		name, value, found := strings.Cut(lines.Text(), " ")
		if !found || strings.HasPrefix(name, "#") {
			continue
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			m[name] = v
		}
	}
	return m, lines.Err()
}

// sum adds up all label sets of a metric.
func (m metrics) sum(name string) (total float64) {
	for key, v := range m {
		if key == name || strings.HasPrefix(key, name+"{") {
			total += v
		}
	}
	return total
}

var heapLine = regexp.MustCompile(`(?m)^# (HeapAlloc|Stack) = (\d+)`)

// memory returns the live memory of the Go heap after a collection, and of the stacks,
// in bytes.
func (r *relay) memory(ctx context.Context) (float64, error) {
	var text string
	if err := request(ctx, http.MethodGet, r.admin+"/debug/pprof/heap?gc=1&debug=1", "", &text); err != nil {
		return 0, err
	}
	total := 0.0
	found := heapLine.FindAllStringSubmatch(text, -1)
	if len(found) != 2 {
		return 0, fmt.Errorf("the heap profile of %s has no sums", r.name)
	}
	for _, m := range found {
		n, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}
