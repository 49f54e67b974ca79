package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"golang.org/x/sync/errgroup"

	"lockstep/config"
	"lockstep/console"
	"lockstep/console/page"
	"lockstep/internal/access"
	"lockstep/internal/httpserve"
	"lockstep/internal/relay/lifecycle"
)

// listenAdmin opens the port of the console, if there is to be one. Without a token it
// must be on loopback: whoever can reach it can end a sender's turn.
func (a *App) listenAdmin(ctx context.Context) (net.Listener, error) {
	s, listener := a.cfg.Server, a.adminListener
	if listener == nil {
		var err error
		if listener, err = listen(ctx, Endpoint{s.AdminAddress, "ADMIN_ADDRESS"}); err != nil || listener == nil {
			return nil, err
		}
	}
	if tcp, ok := listener.Addr().(*net.TCPAddr); s.AdminToken == "" && (!ok || !tcp.IP.IsLoopback()) {
		return nil, errors.Join(config.ErrNoAdminToken, listener.Close())
	}
	a.trace.Follow(&a.steps)
	a.door = access.NewDoor(s.AdminToken)
	if a.door.Open() && s.AdminLoopbackToken && a.develops == nil {
		a.door = access.Locked()
		a.door.Tell(os.Stderr, "the console", "http://"+address(listener)+page.Prefix)
	}
	return listener, nil
}

// AdminAddr returns the address of the console after Listen, or "" without one.
func (a *App) AdminAddr() string { return address(a.adminListener) }

// Develops says that the network is one for development, and where its mirror node is, so that
// the console shows what a developer wants to see. The listener, if there is one, is the console's
// in place of ADMIN_ADDRESS. Call it before Listen.
func (a *App) Develops(mirror *url.URL, ui net.Listener) { a.develops, a.adminListener = mirror, ui }

// Beside says that another process, or another part of this one, has a page of its own, so that the console's leads there.
// Call it before Run.
func (a *App) Beside(text, url string) { a.beside = append(a.beside, page.Link{Text: text, URL: url}) }

func (a *App) serveAdmin(ctx context.Context, listener net.Listener) error {
	c := console.New(a.consoleDeps())
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return c.Run(ctx) })
	parts.Go(func() error { return serveBeside(ctx, "console", listener, c) })
	return parts.Wait()
}

// serveBeside serves a small server beside those of JSON-RPC until ctx ends, and with it what
// is being answered.
func serveBeside(ctx context.Context, what string, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 8 << 10}
	if err := httpserve.Until(ctx, server, listener, 0); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (a *App) consoleDeps() console.Deps {
	deps := console.Deps{
		Door: a.door, Version: a.version, ChainID: uint64(a.cfg.Server.ChainID),
		Mirror: a.develops, Locks: a.locks, Window: a.cfg.Lock.Window.Duration(), Budget: int64(a.cfg.Limit.Total),
		Upstreams: a.shownUpstreams, Metrics: a.registry, Calls: a.http, Log: a.log, Beside: a.beside, Memory: a.memory, Steps: &a.steps,
	}
	if a.reloading.load != nil {
		deps.Reload = func(ctx context.Context) (any, error) { return a.Reload(ctx) }
	}
	if a.trace.Enabled() {
		deps.Record = func(ctx context.Context, hash common.Hash) (lifecycle.Record, bool) { return a.trace.Get(ctx, hash) }
	}
	return deps
}

// shownUpstreams are the upstreams one by one, as the console shows them.
func (a *App) shownUpstreams(ctx context.Context) []console.Upstream {
	out := map[string]trouble{}
	for _, t := range a.ready(ctx).Reasons {
		out[t.Upstream] = t
	}
	var all []console.Upstream
	add := func(kind, name, note string, err error) {
		u := console.Upstream{Kind: kind, Name: name, Note: note, Up: err == nil}
		if t, known := out[kind]; known {
			u.Up, u.Since, u.Cause = false, &t.Since, t.Cause
		}
		if err != nil {
			u.Cause = err.Error()
		}
		all = append(all, u)
	}
	for _, m := range a.mirror.Upstreams() {
		note := ""
		if m.Head > 0 {
			note = "head " + strconv.FormatUint(m.Head, 10)
		}
		add(upstreamMirror, m.Name, note, m.Err)
	}
	for _, n := range a.consensus.Nodes() {
		var err error
		if !n.Healthy {
			err = errors.Join(n.Err, fmt.Errorf("failures in a row: %d", n.Failures))
		}
		add(upstreamNodes, n.ID.String(), strings.Join(n.Endpoints, " "), err)
	}
	if a.redis != nil {
		add(upstreamRedis, upstreamRedis, "", nil)
	}
	if a.usesLockRedis() {
		add(upstreamLockRedis, upstreamLockRedis, "", nil)
	}
	if _, wrong := out[upstreamChain]; wrong {
		add(upstreamChain, "CHAIN_ID", "", nil)
	}
	return all
}
