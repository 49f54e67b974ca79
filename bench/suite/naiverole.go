package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/bench/naive"
	"lockstep/config"
	"lockstep/consensus"
	"lockstep/internal/redisx"
	"lockstep/mirror"
)

// naiveReady is the line that says where the baseline is.
type naiveReady struct {
	Naive bool   `json:"naive"`
	URL   string `json:"url"`
	WS    string `json:"ws,omitempty"` // of a speaker
}

// naiveRole is the main function of the baseline's process. It takes the settings of a
// relay from the environment.
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
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(naiveReady{Naive: true, URL: "http://" + l.Addr().String()}); err != nil {
		return err
	}
	server := &http.Server{Handler: relay, ReadHeaderTimeout: time.Minute}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return nodes.Run(ctx) })
	group.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		return errors.Join(server.Close(), nodes.Close())
	})
	return group.Wait()
}
