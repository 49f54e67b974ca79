package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"lockstep/consensus"
	"lockstep/internal/hapi"
	"lockstep/internal/outage"
	"lockstep/mirror"
)

// What readiness looks at, by the names that READINESS_FAILS_WITHOUT has for it.
const (
	upstreamMirror    = "mirror"
	upstreamNodes     = "nodes"
	upstreamRedis     = "redis"
	upstreamLockRedis = "lock_redis" // that of LOCK_REDIS_URL
	upstreamChain     = "chain"      // no upstream: whether CHAIN_ID is that of the network
	upstreamOperator  = "operator"   // … whether the operator is an account of the network and has its key
)

// readyTimeout is for a look at one upstream, readyWait for whoever asks meanwhile. Tests prolong them.
var (
	readyTimeout = 2 * time.Second
	readyWait    = 500 * time.Millisecond // the probes of Kubernetes wait for a second, unless told otherwise
)

const (
	readyFresh = time.Second // how long a look is good for
	readyNodes = 4           // nodes that are tried at a time
)

// trouble is an upstream that does not answer, or what else is wrong.
type trouble struct {
	Upstream string    `json:"upstream"`
	Since    time.Time `json:"since"`
	Cause    string    `json:"cause"`
	Fatal    bool      `json:"fatal"` // the relay is not ready for it
}

// readyReport is what readiness says when there is something to say.
type readyReport struct {
	Status  string    `json:"status"` // OK, DEGRADED or DOWN
	Reasons []trouble `json:"reasons"`
}

// upstreams remembers since when an upstream has not answered, or a setting is known to be wrong.
type upstreams struct {
	mu     sync.Mutex
	looked time.Time          // guarded by mu: when the last look ended
	look   chan struct{}      // guarded by mu: closed when the look that is under way ends; nil: there is none
	out    map[string]trouble // guarded by mu
	logs   map[string]*outage.Log
}

// readiness says whether requests are welcome. It is DOWN from the moment when the process
// is asked to stop, so that a load balancer sends no more, and while an upstream is out that
// READINESS_FAILS_WITHOUT names; it is DEGRADED while another one is. With nothing to say it
// is OK in one word, as the TypeScript relay has it.
func (a *App) readiness(w http.ResponseWriter, r *http.Request) {
	report := a.ready()
	if len(report.Reasons) == 0 && !strings.Contains(r.Header.Get("Accept"), "json") {
		text(report.Status).ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if report.Status == "DOWN" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(report) // a client that went away needs no answer
}

// ready looks at the upstreams, unless that was done just now.
func (a *App) ready() readyReport {
	if since := a.stopping.Load(); since != nil {
		return readyReport{"DOWN", []trouble{{Upstream: "relay", Since: *since, Cause: "the relay is stopping", Fatal: true}}}
	}
	a.lookAgain(a.upstreamChecks(), readyWait)
	u := &a.upstreams
	u.mu.Lock()
	defer u.mu.Unlock()
	report := readyReport{Status: "OK", Reasons: []trouble{}}
	for _, name := range []string{upstreamMirror, upstreamNodes, upstreamRedis, upstreamLockRedis, upstreamChain, upstreamOperator} {
		if t, out := u.out[name]; out {
			report.add(t)
		}
	}
	return report
}

// add notes a reason and what it makes of the whole.
func (r *readyReport) add(t trouble) {
	r.Reasons = append(r.Reasons, t)
	switch {
	case t.Fatal:
		r.Status = "DOWN"
	case r.Status == "OK":
		r.Status = "DEGRADED"
	}
}

// failsWithout tells whether the relay is not ready while something is out, or wrong.
func (a *App) failsWithout(name string) bool {
	return slices.Contains(a.cfg.Server.ReadinessFails, name)
}

// lookAgain asks every upstream at once, unless that was done just now, and waits for the answers. Except for the first time it waits no longer than wait: an
// upstream that stands still would otherwise have probes end without an answer, in the whole fleet. What the look finds, the next one to ask is told.
func (a *App) lookAgain(checks map[string]func(context.Context) error, wait time.Duration) {
	u := &a.upstreams
	u.mu.Lock()
	if time.Since(u.looked) <= readyFresh {
		u.mu.Unlock()
		return
	}
	if u.look == nil {
		u.look = make(chan struct{})
		go a.lookAt(checks)
	}
	look := u.look
	if u.looked.IsZero() {
		wait = readyTimeout
	}
	u.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-look:
	case <-timer.C:
	}
}

// lookAt notes what the upstreams answer.
func (a *App) lookAt(checks map[string]func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout) //nolint:forbidigo // it is for all who ask
	defer cancel()
	type finding struct {
		name string
		err  error
	}
	found := make(chan finding, len(checks))
	for name, check := range checks {
		go func() { found <- finding{name, check(ctx)} }()
	}
	findings := make([]finding, len(checks))
	for i := range findings {
		findings[i] = <-found
	}
	u := &a.upstreams
	u.mu.Lock()
	defer u.mu.Unlock()
	if !a.usesLockRedis() { // ordering was switched off: its Redis is of no account now
		delete(u.out, upstreamLockRedis)
	}
	for _, f := range findings {
		a.note(f.name, f.err)
	}
	close(u.look)
	u.look, u.looked = nil, time.Now()
}

// upstreamChecks are the upstreams that this relay has, by name, each with what is nil while it answers.
func (a *App) upstreamChecks() map[string]func(context.Context) error {
	checks := map[string]func(context.Context) error{upstreamMirror: a.mirrorAnswers}
	if !a.cfg.Submit.ReadOnly {
		checks[upstreamNodes] = a.nodesTake
	}
	if a.redis != nil {
		checks[upstreamRedis] = func(ctx context.Context) error { return takesWrites(ctx, a.redis, "txpool:alive") }
	}
	if a.usesLockRedis() {
		checks[upstreamLockRedis] = func(ctx context.Context) error { return takesWrites(ctx, a.lockRedis, "lock:alive") }
	}
	return checks
}

// takesWrites is nil while Redis takes what is written to it: one that is full, or has become a replica, still answers a PING.
func takesWrites(ctx context.Context, client redis.UniversalClient, key string) error {
	return client.Set(ctx, key, "", readyFresh).Err()
}

// usesLockRedis tells whether the locks have a Redis of their own and use it: without ordering nobody does.
func (a *App) usesLockRedis() bool {
	return a.redis != nil && a.cfg.Redis.LockURL != "" && a.locks.On()
}

// upstreamsUp tells a scraper what readiness found: a relay that nobody uses has no other sign
// that its upstreams are out.
type upstreamsUp struct{ app *App }

var upstreamUp = prometheus.NewDesc("lockstep_upstream_up",
	"1 for an upstream (mirror, nodes, redis, lock_redis) that answered when readiness or a scrape looked at it last, 0 for one that did not. lock_redis is the Redis of LOCK_REDIS_URL, while ordering is on.", []string{"upstream"}, nil)

// Describe implements prometheus.Collector.
func (upstreamsUp) Describe(out chan<- *prometheus.Desc) { out <- upstreamUp }

// Collect implements prometheus.Collector.
func (c upstreamsUp) Collect(out chan<- prometheus.Metric) {
	u, checks := &c.app.upstreams, c.app.upstreamChecks()
	c.app.lookAgain(checks, readyWait)
	u.mu.Lock()
	defer u.mu.Unlock()
	for name := range checks {
		up := 1.0
		if _, isOut := u.out[name]; isOut {
			up = 0
		}
		out <- prometheus.MustNewConstMetric(upstreamUp, prometheus.GaugeValue, up, name)
	}
}

// note keeps what a look has found; nil: nothing is wrong. It is called with the lock held.
func (a *App) note(name string, err error) {
	u := &a.upstreams
	t, wasOut := u.out[name]
	switch {
	case err != nil && !wasOut:
		t = trouble{Upstream: name, Since: time.Now().UTC()}
	case err == nil:
		delete(u.out, name)
	}
	if l := u.logs[name]; l != nil && err != nil {
		l.Down(context.Background(), err) //nolint:forbidigo // the line belongs to no request
	} else if l != nil {
		l.Up(context.Background()) //nolint:forbidigo // see above
	}
	if err == nil {
		return
	}
	_, idle := errors.AsType[idleNode](err)
	t.Cause, t.Fatal = publicCause(err), !idle && a.failsWithout(name)
	if u.out == nil {
		u.out = make(map[string]trouble)
	}
	u.out[name] = t
}

// publicCause says why an upstream does not answer, without the address of anything: anybody may read it. The log has
// the whole error.
func publicCause(err error) string {
	var (
		words  plain
		answer *mirror.Error
		name   *net.DNSError
		number syscall.Errno
		late   interface{ Timeout() bool }
		reply  redis.Error
	)
	switch {
	case errors.As(err, &words):
		return words.Error()
	case errors.As(err, &answer):
		return answer.Error() // it names no host
	case errors.As(err, &name) && name.IsNotFound:
		return "the name of its host is not known"
	case errors.As(err, &number):
		return number.Error()
	case errors.As(err, &late) && late.Timeout():
		return "no answer in time"
	case errors.As(err, &reply): // such as LOADING or NOAUTH; what follows may have an address
		code, _, _ := strings.Cut(reply.Error(), " ")
		return "Redis answers " + code
	default:
		return "it does not answer; the log of the relay has the cause"
	}
}

// outageLogs are for what nobody else notices: that no node at all takes anything, and the
// loss of a Redis that is not that of the locks: package lock tells of theirs. Each mirror node and
// each consensus node tells of itself (packages mirror/fetch and consensus).
func (a *App) outageLogs() map[string]*outage.Log {
	logs := map[string]*outage.Log{upstreamNodes: {
		Logger: a.log, Upstream: "node", Name: "all", Level: slog.LevelError, Consequence: "transactions are not sent",
	}}
	if !a.cfg.Lock.Enabled || a.cfg.Redis.LockURL != "" {
		logs[upstreamRedis] = &outage.Log{
			Logger: a.log, Upstream: "redis", Name: "shared state", Level: slog.LevelError, Consequence: "limits, filters and pending transactions hold in this relay alone",
		}
	}
	return logs
}

func (a *App) mirrorAnswers(ctx context.Context) error {
	_, err := a.mirror.LatestBlock(ctx)
	return err
}

// idleNode is a node that takes a connection and then nothing. Other relays find the same, so it is no reason to send their clients elsewhere.
type idleNode struct{ error }

// Unwrap gives the cause.
func (e idleNode) Unwrap() error { return e.error }

// nodesTake is nil when one of the nodes takes a connection, and answers there that it is active. Those that failed
// come last.
func (a *App) nodesTake(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	nodes := a.consensus.Nodes()
	slices.SortStableFunc(nodes, func(x, y consensus.NodeStatus) int { return cmp.Compare(x.Failures, y.Failures) })
	tries := make(chan struct{}, readyNodes)
	ends := make(chan error, len(nodes))
	for _, node := range nodes {
		go func() {
			select {
			case tries <- struct{}{}:
				defer func() { <-tries }()
			case <-ctx.Done():
				ends <- ctx.Err()
				return
			}
			ends <- a.takes(ctx, node)
		}()
	}
	var last error
	for range nodes {
		err := <-ends
		if err == nil {
			return nil
		}
		_, idle := errors.AsType[idleNode](last)
		if last == nil || !idle && !errors.Is(err, context.Canceled) {
			last = err
		}
	}
	return last
}

// takes is nil when a node takes a connection and is active.
func (a *App) takes(ctx context.Context, node consensus.NodeStatus) error {
	if err := dials(ctx, node.Endpoints); err != nil {
		return err
	}
	status, err := a.consensus.Active(ctx, node.ID)
	switch {
	case ctx.Err() != nil:
		return idleNode{ctx.Err()}
	case err != nil:
		return idleNode{err}
	case status != hapi.ResponseCodeEnum_OK:
		return idleNode{plain("the nodes answer " + status.String())}
	default:
		return nil
	}
}

// dials is nil when one of a node's addresses takes a connection.
func dials(ctx context.Context, endpoints []string) error {
	err := errors.New("the node has no address")
	for _, endpoint := range endpoints {
		var conn net.Conn
		if conn, err = new(net.Dialer).DialContext(ctx, "tcp", endpoint); err == nil {
			return conn.Close()
		}
	}
	return err
}
