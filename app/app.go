package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"lockstep/config"
	"lockstep/consensus"
	"lockstep/console/page"
	"lockstep/ethapi"
	"lockstep/internal/access"
	"lockstep/internal/relay/apikey"
	"lockstep/internal/relay/cache"
	"lockstep/internal/relay/capacity"
	"lockstep/internal/relay/lifecycle"
	"lockstep/internal/relay/limit"
	"lockstep/internal/relay/pending"
	"lockstep/internal/relay/telemetry"
	"lockstep/internal/sleep"
	"lockstep/lock"
	"lockstep/mirror"
	"lockstep/rpc"
	"lockstep/submit"
)

// App is one relay.
type App struct {
	cfg      config.Config
	version  string
	log      *slog.Logger
	registry *prometheus.Registry
	further  []rpc.Method // beside the relay's own
	develops *url.URL     // the mirror node of a network for development; nil on others
	beside   []page.Link  // where the console's page leads

	memory *capacity.Memory
	clients
	costs         *costs
	cache         *cache.Redis
	locks         *lock.Service
	mirror        *mirror.Client
	consensus     *consensus.Client
	budget        *limit.Budget
	nonces        *limit.WrongNonces
	keys          *apikey.Ring
	promises      *pending.Promises
	pool          *pending.Pool
	trace         *lifecycle.Service
	steps         lifecycle.Journal // empty without a console
	submitter     *submit.Submitter
	subscriptions *ethapi.Subscriptions
	dispatcher    *rpc.Dispatcher
	tracer        *telemetry.Tracer
	http          *rpc.HTTPServer
	ws            *rpc.WSServer

	door                                                    access.Door  // of the console
	httpListener, wsListener, adminListener, statusListener net.Listener // nil: not served

	callLimits atomic.Pointer[rpc.RateLimitConfig] // those of now
	reloading  reloading

	stopping  atomic.Pointer[time.Time] // when Run was asked to end; nil before
	upstreams upstreams
	verdicts  verdicts

	operatorFits, chainFits *prometheus.GaugeVec // without labels; they have no value before one is known
}

// Endpoint is an address to listen on and the setting or flag that chose it, which
// an error names.
type Endpoint struct {
	Address string // host:port; "" for none
	Setting string
}

// Listen opens the ports. Call it once, before Run.
func (a *App) Listen(ctx context.Context, http, ws Endpoint) (err error) {
	if a.httpListener, err = listen(ctx, http); err != nil {
		return err
	}
	if a.wsListener, err = listen(ctx, ws); err != nil {
		return errors.Join(err, a.closeListeners())
	}
	if a.adminListener, err = a.listenAdmin(ctx); err != nil {
		return errors.Join(err, a.closeListeners())
	}
	if a.statusListener, err = listen(ctx, a.statusEndpoint(http)); err != nil {
		return errors.Join(err, a.closeListeners())
	}
	return nil
}

func listen(ctx context.Context, e Endpoint) (net.Listener, error) {
	if e.Address == "" {
		return nil, nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", e.Address)
	if errors.Is(err, syscall.EADDRINUSE) {
		_, port, _ := net.SplitHostPort(e.Address)
		return nil, fmt.Errorf("port %s is taken (%s), perhaps by a relay that still runs; stop it, or choose another with %s, or 0 for any free one", port, e.Address, e.Setting)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Setting, err)
	}
	return listener, nil
}

// Endpoints returns where the settings of `serve` say to listen.
func (a *App) Endpoints() (http, ws Endpoint) {
	s := a.cfg.Server
	if s.HTTP {
		http = Endpoint{net.JoinHostPort(s.Host, strconv.Itoa(s.Port)), "SERVER_PORT"}
	}
	if s.WebSocket {
		ws = Endpoint{net.JoinHostPort(s.Host, strconv.Itoa(s.WebSocketPort)), "WEB_SOCKET_PORT"}
	}
	return http, ws
}

// HTTPAddr returns the address of the HTTP port after Listen, or "" without one.
func (a *App) HTTPAddr() string { return address(a.httpListener) }

// WSAddr returns the address of the WebSocket port after Listen, or "" without one.
func (a *App) WSAddr() string { return address(a.wsListener) }

func address(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

// Run serves until ctx ends and then stops in the order the package comment gives.
// The error is nil after a clean stop.
func (a *App) Run(ctx context.Context) error {
	backstage, stopBackstage := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBackstage()
	below, backstage := errgroup.WithContext(backstage)
	below.Go(func() error { return a.locks.Run(backstage) })
	below.Go(func() error { return a.consensus.Run(backstage) })
	below.Go(func() error { return a.mirror.Run(backstage) })
	below.Go(func() error { return a.budget.Run(backstage) })
	below.Go(func() error { return a.costs.run(backstage) })
	below.Go(func() error { return a.cache.Run(backstage) })
	below.Go(func() error { return a.subscriptions.Run(backstage) })
	below.Go(func() error { return a.pool.Run(backstage) })
	below.Go(func() error { return a.promises.Run(backstage, a.takeOver) })
	below.Go(func() error { return a.trace.Run(backstage) })
	below.Go(func() error { return collect(backstage, a.cfg.Capacity.Collect()) })
	below.Go(func() error { return release(backstage, a.memory) })

	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	servers, serving := errgroup.WithContext(serving)
	if a.httpListener != nil {
		servers.Go(func() error { return a.http.Run(serving, a.httpListener) })
	}
	// Without a port of its own, WebSocket is served on the HTTP port.
	servers.Go(func() error { return a.ws.Run(serving, a.wsListener) })
	if a.adminListener != nil {
		servers.Go(func() error { return a.serveAdmin(serving, a.adminListener) })
	}
	if a.statusListener != nil {
		servers.Go(func() error { return a.serveStatus(serving, a.statusListener) })
	}
	servers.Go(func() error { // a failure below ends these, too
		select {
		case <-backstage.Done():
			return context.Cause(backstage)
		case <-serving.Done(): // one of them failed
			return nil
		case <-ctx.Done():
			a.leave(serving)
			stopServing()
			return nil
		}
	})
	err := servers.Wait()
	a.drain(ctx)
	stopBackstage()
	return errors.Join(err, ignoreCancel(below.Wait()), a.close())
}

// leave says that the relay is going and serves on for a while, so that load balancers take
// notice before the ports close. Every answer ends its connection meanwhile.
func (a *App) leave(ctx context.Context) {
	now := time.Now().UTC()
	a.stopping.Store(&now)
	a.http.Leave()
	delay := a.cfg.Server.DrainDelay.Duration()
	a.log.Info("the relay is asked to stop: it is not ready any more, and its ports close after a delay", "delay", delay)
	sleep.For(ctx, delay)
}

// drain waits for the verdict on what was accepted.
func (a *App) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.Server.DrainTimeout.Duration())
	defer cancel()
	if left := a.submitter.Drain(ctx); left > 0 {
		a.log.Warn("stopped before every transaction had its verdict", "transactions", left)
	}
}

func ignoreCancel(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (a *App) close() error {
	var errs []error
	if a.tracer != nil {
		errs = append(errs, a.closeTracer())
	}
	if a.consensus != nil {
		errs = append(errs, a.consensus.Close())
	}
	return errors.Join(append(errs, a.clients.close()...)...)
}

// closeTracer sends the last traces, if the collector takes them soon.
func (a *App) closeTracer() error {
	const limit = 3 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), limit) //nolint:forbidigo // the process ends, and no request is left
	defer cancel()
	return a.tracer.Close(ctx)
}

func (a *App) closeListeners() error {
	var errs []error
	for _, l := range []net.Listener{a.httpListener, a.wsListener, a.adminListener, a.statusListener} {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	return errors.Join(errs...)
}

// settings are what GET /config and admin_config show, in the shape that established
// relays give it. Secrets are masked by their type.
type settings struct {
	Relay    serviceSettings   `json:"relay"`
	Upstream []serviceSettings `json:"upstreamDependencies"`
}

// serviceSettings are those of one part, by the name of the setting.
type serviceSettings struct {
	Service string            `json:"service,omitempty"`
	Version string            `json:"version,omitempty"` // empty: not known
	Config  map[string]string `json:"config"`
}

// settings returns the settings. Those that begin with the name of something behind the
// relay are shown there.
func (a *App) settings(ctx context.Context) any {
	relay := serviceSettings{Version: a.version, Config: map[string]string{}}
	nodes := serviceSettings{Service: "consensusNode", Version: a.nodeVersion(ctx), Config: map[string]string{}}
	mirror := serviceSettings{Service: "mirrorNode", Config: map[string]string{}}
	for _, s := range a.inEffect().Effective() {
		switch {
		case strings.HasPrefix(s.Name, "SDK_"):
			nodes.Config[s.Name] = s.Value
		case strings.HasPrefix(s.Name, "MIRROR_NODE_"):
			mirror.Config[s.Name] = s.Value
		default:
			relay.Config[s.Name] = s.Value
		}
	}
	return settings{Relay: relay, Upstream: []serviceSettings{nodes, mirror}}
}

// versionTimeout is for the look at the newest block. Tests prolong it.
var versionTimeout = time.Second

// nodeVersion returns the version of the consensus nodes, as the newest block names it;
// empty if the mirror node does not tell at once.
func (a *App) nodeVersion(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	head, err := a.mirror.LatestBlock(ctx)
	if err != nil {
		return ""
	}
	return head.HAPI
}

// reloading is how the settings are read again.
type reloading struct {
	mu    sync.Mutex // one at a time
	load  func() (config.Config, error)
	apply func(config.Config)
	now   config.Config // the settings in effect, guarded by mu
}

// Reloaded says what came of reading the settings again, by their names.
type Reloaded struct {
	// Changed have taken effect.
	Changed []string `json:"changed"`
	// Restart differ, and keep their old values until the relay is started again.
	Restart []string `json:"restart"`
}

// Reloads tells how the settings are read again, and what else than the relay itself takes new
// ones. Call it once, before Run.
func (a *App) Reloads(load func() (config.Config, error), apply func(config.Config)) {
	a.reloading.load, a.reloading.apply = load, apply
}

// inEffect returns the settings in effect.
func (a *App) inEffect() config.Config {
	a.reloading.mu.Lock()
	defer a.reloading.mu.Unlock()
	return a.reloading.now
}

// Reload reads the settings again and applies those that may change while the relay runs:
// docs/CONFIG.md marks them. If anything is wrong with the settings, nothing changes. It logs what has changed, and warns
// of names that may be misspelt, as New does.
func (a *App) Reload(ctx context.Context) (Reloaded, error) {
	r := &a.reloading
	r.mu.Lock()
	defer r.mu.Unlock()
	next, err := r.load()
	config.WarnOfDoubts(a.log, next.Doubts)
	config.WarnOfMisspelt(a.log, next.Misspelt) // also beside a mistake, which they may explain
	if err != nil {
		return Reloaded{}, err
	}
	done := Reloaded{Changed: []string{}, Restart: []string{}} // lists without anything, for JSON
	atOnce, restart := r.now.Changed(next)
	done.Changed, done.Restart = append(done.Changed, atOnce...), append(done.Restart, restart...)
	r.now.Take(next)
	limits := next.RPC.RateLimit
	a.callLimits.Store(&limits)
	a.locks.SetRollout(next.Lock)
	a.keys.Replace(next.RPC.Keys.APIKeys)
	a.ws.EndRevoked()
	a.warnOfIdle(next.RPC.Keys.APIKeys)
	a.warnOfIdleLimits(limits.Methods)
	r.apply(next)
	a.log.InfoContext(ctx, "the settings were read again", "changed", done.Changed, "need_a_restart", done.Restart)
	return done, nil
}

// What a chain for development asks of its relay.

// withFurther adds the further methods, which take the place of others of the same name.
func (a *App) withFurther(own []rpc.Method) []rpc.Method {
	own = slices.DeleteFunc(own, func(m rpc.Method) bool {
		return slices.ContainsFunc(a.further, func(f rpc.Method) bool { return f.Name == m.Name })
	})
	return append(own, a.further...)
}

// wentBack forgets what a network that has gone back does not know any more. The mirror
// client has forgotten already.
func (a *App) wentBack(block uint64) {
	a.locks.Forget()
	a.pool.Forget()
	a.subscriptions.WentBack(block)
}

// Changed says that the chain was changed by something that the relay did not see: every read
// from now on asks again. That the network has gone back is known when it returns.
func (a *App) Changed(ctx context.Context) error {
	a.mirror.Invalidate()
	_, err := a.mirror.Head(ctx)
	return err
}
