package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"lockstep/console/page"
	"lockstep/internal/access"
	"lockstep/internal/lease"
	"lockstep/internal/ledger"
	"lockstep/internal/redisx"
	"lockstep/txmgr"
	"lockstep/txmgr/api"
	"lockstep/txmgr/policy"
	"lockstep/txmgr/signers"
	"lockstep/txmgr/sqlstore"
	"lockstep/txmgr/webhooks"
)

// Topic is where the manager's events stand in the ledger's outbox.
const Topic = "txm"

// channel carries the hints of managers in Redis. Managers of other ledgers there may wake these, for nothing.
const channel = "lockstep:txm"

// Driver opens a chain of the settings.
type Driver func(ctx context.Context, spec Spec) (txmgr.Chain, error)

// Deps are what the program brings.
type Deps struct {
	Drivers map[string]Driver // by Spec.Driver
	Version string
	Log     *slog.Logger
	// Beside are pages of processes that belong to this one.
	Beside []page.Link
	// Reread reads the settings again, for Service.Reload. nil: they are never read again.
	Reread func() (Config, error)
	// Faults is called between two steps; for tests of crashes.
	Faults txmgr.Faults
}

// Service is a transaction manager with all its parts.
type Service struct {
	Manager  *txmgr.Manager
	Keys     *access.Keys
	registry *prometheus.Registry

	keys     []txmgr.Key
	reload   func(context.Context) error
	chains   []txmgr.Chain
	db       *ledger.DB
	api      *api.Server
	webhooks *webhooks.Service
	hints    *redisx.Hints // nil: without Redis
	treasury *treasury     // nil: there is none
}

// New puts a manager together. It opens the ledger, for which it waits while the database is down, and asks every key for a
// signature; it opens no port and starts nothing.
func New(ctx context.Context, cfg Config, deps Deps) (*Service, error) {
	db, err := ledger.OpenWhenUp(ctx, cfg.Ledger.DatabaseURL(), deps.Log, "nothing is accepted and nothing is signed until it answers")
	if err != nil {
		return nil, err
	}
	s := &Service{db: db, registry: prometheus.NewRegistry()}
	if err := s.wire(ctx, cfg, deps); err != nil {
		return nil, errors.Join(err, s.closeParts())
	}
	return s, nil
}

// Check says what New would refuse for the settings alone: it opens the chains, which connects to nobody, and no ledger.
func Check(ctx context.Context, cfg Config, drivers map[string]Driver) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	chains, _, err := open(ctx, cfg.Chains, drivers)
	(&Service{chains: chains}).closeChains()
	return err
}

func (s *Service) wire(ctx context.Context, cfg Config, deps Deps) error {
	store, err := sqlstore.New(ctx, s.db)
	if err != nil {
		return err
	}
	if err := s.db.Migrate(ctx, access.Schema); err != nil {
		return err
	}
	chains, caps, err := open(ctx, cfg.Chains, deps.Drivers)
	s.chains = chains
	if err != nil {
		return err
	}
	if s.keys, err = keysOf(ctx, cfg.Signers); err != nil {
		return err
	}
	if cfg.Manager.Instance == "" {
		if cfg.Manager.Instance, err = os.Hostname(); err != nil {
			return fmt.Errorf("INSTANCE_ID: %w", err)
		}
	}
	pools, err := cfg.Chains.pools()
	if err != nil {
		return err
	}
	waker, err := s.waker(cfg.Waker, store, deps.Log)
	if err != nil {
		return err
	}
	guard := policy.New(s.db)
	s.reload = func(ctx context.Context) error {
		if deps.Reread == nil {
			return txmgr.ErrNotPossible
		}
		cfg, err := deps.Reread()
		if err != nil {
			return err
		}
		pools, err := cfg.Chains.pools()
		if err != nil {
			return err
		}
		keys, err := keysOf(ctx, cfg.Signers)
		if err != nil {
			return err
		}
		if err := s.Manager.Reload(ctx, keys, pools); err != nil {
			return err
		}
		deps.Log.Info("keys and pools of the settings were read again", "signers", len(keys))
		return nil
	}
	s.Manager, err = txmgr.New(txmgr.Options{
		Config: cfg.Manager, Store: store, Chains: chains, Keys: s.keys, Pools: pools, Guard: guard, Log: deps.Log, Waker: waker, FeeCaps: caps,
		Leases: lease.NewHolder(s.db, "txm", cfg.Manager.Instance, cfg.Manager.Lease.Duration(), deps.Log),
	})
	if err != nil {
		return err
	}
	if deps.Faults != nil {
		s.Manager.SetFaults(deps.Faults)
	}
	if s.webhooks, err = webhooks.New(cfg.Webhooks, s.db, webhooks.Options{Topic: Topic, Kinds: txmgr.EventKinds(), Agent: "lockstep/" + deps.Version}, deps.Log); err != nil {
		return err
	}
	if s.treasury, err = newTreasury(cfg.Treasury, s.Manager, deps.Log); err != nil {
		return err
	}
	s.registry.MustRegister(s.Manager.Collectors()...)
	s.registry.MustRegister(s.webhooks.Collectors()...)
	for _, chain := range s.chains {
		if driver, ok := chain.(interface{ Collectors() []prometheus.Collector }); ok {
			prometheus.WrapRegistererWith(prometheus.Labels{"chain": chain.ID()}, s.registry).MustRegister(driver.Collectors()...)
		}
	}
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s.Keys = access.New(s.db, cfg.API.BasicUser, cfg.API.Password())
	s.Keys.Proxies = cfg.API.Proxies()
	surface := api.Deps{
		Manager: s.Manager, Keys: s.Keys, Policies: guard, Webhooks: s.webhooks, Newest: s.db.Newest, Beside: deps.Beside, Version: deps.Version, Log: deps.Log,
		Metrics: promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}),
	}
	surface.Reload = s.Reload
	if s.treasury != nil {
		surface.TopUp = s.treasury.topUp
	}
	s.api = api.New(cfg.API, surface)
	return nil
}

// Reload reads keys and pools of the settings again. With an error nothing is changed.
func (s *Service) Reload(ctx context.Context) error { return s.reload(ctx) }

// keysOf opens the keys of the settings and asks each for a signature.
func keysOf(ctx context.Context, cfg signers.Config) (keys []txmgr.Key, err error) {
	list, err := signers.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	accessKeys, err := signers.OpenNEAR(cfg)
	for _, one := range list {
		keys = append(keys, one)
	}
	for _, one := range accessKeys {
		keys = append(keys, one)
	}
	return keys, err
}

// waker is Redis if the settings name one, else what the ledger has.
func (s *Service) waker(cfg Waker, store *sqlstore.Store, log *slog.Logger) (txmgr.Waker, error) {
	hints, err := cfg.open(func(err error) {
		if err != nil {
			log.Warn("redis delivers no wake-ups: owners find what other processes accept by polling", "error", err)
		} else {
			log.Info("redis delivers wake-ups again")
		}
	})
	if err != nil || hints == nil {
		return store.Waker(), err
	}
	s.hints = hints
	return hints, nil
}

// Signs is the number of keys that the manager signs with, those of accounts on NEAR among them.
func (s *Service) Signs() int { return len(s.keys) }

// open opens the chains, and returns those that it has opened, also with an error; caps are their own
// prices, by chain.
func open(ctx context.Context, cfg Chains, drivers map[string]Driver) (chains []txmgr.Chain, caps map[string]*big.Int, err error) {
	specs, err := cfg.Parse()
	if err != nil {
		return nil, nil, err
	}
	caps = map[string]*big.Int{}
	for _, spec := range specs {
		driver, ok := drivers[spec.Driver]
		if !ok {
			return chains, nil, fmt.Errorf("TXM_CHAINS: chain %s: there is no driver %q", spec.ID, spec.Driver)
		}
		chain, err := driver(ctx, spec)
		if err != nil {
			return chains, nil, fmt.Errorf("TXM_CHAINS: chain %s: %w", spec.ID, err)
		}
		chains = append(chains, chain)
		if price, err := spec.feeCap(); err != nil {
			return chains, nil, err
		} else if price != nil {
			caps[chain.ID()] = price
		}
	}
	return chains, caps, nil
}

// Listen opens the port.
func (s *Service) Listen(ctx context.Context) error { return s.api.Listen(ctx) }

// Describe sends the descriptions of all metrics of the manager's own /metrics.
func (s *Service) Describe(to chan<- *prometheus.Desc) { s.registry.Describe(to) }

// URL is where the surface listens.
func (s *Service) URL() string { return "http://" + s.api.Addr() }

// Close closes a service that is not going to run.
func (s *Service) Close() error {
	s.api.Close()
	return s.closeParts()
}

func (s *Service) closeParts() error {
	s.closeChains()
	var err error
	if s.hints != nil {
		err = s.hints.Close()
	}
	return errors.Join(err, s.db.Close())
}

// closeChains closes the connections of drivers that keep some.
func (s *Service) closeChains() {
	for _, c := range s.chains {
		if open, ok := c.(interface{ Close() }); ok {
			open.Close()
		}
	}
}

// Run serves until ctx ends or a part fails, and then stops everything in order. The
// ledger is closed when it returns.
func (s *Service) Run(ctx context.Context) error {
	// The signers are known before anyone asks for one.
	for _, k := range s.keys {
		add := func(ctx context.Context) error { return s.Manager.AddSigner(ctx, k) }
		switch err := ledger.WhileDown(ctx, add); {
		case ctx.Err() != nil:
			return s.Close() // told to stop before it began
		case err != nil:
			return errors.Join(err, s.Close())
		}
	}
	parts, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group := new(errgroup.Group)
	part := func(name string, run func(context.Context) error) {
		group.Go(func() error {
			defer stop() // none of them ends by itself but for a failure
			if err := run(parts); err != nil && (parts.Err() == nil || !errors.Is(err, context.Canceled)) {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	for _, c := range s.chains {
		if busy, ok := c.(interface{ Run(context.Context) error }); ok {
			part("chain "+c.ID(), busy.Run)
		}
	}
	part("transaction manager", s.Manager.Run)
	part("webhooks", s.webhooks.Run)
	if s.treasury != nil {
		part("treasury", s.treasury.run)
	}
	// The listener ends first: with ctx, or when another part has failed.
	listening, end := context.WithCancel(ctx)
	defer end()
	undo := context.AfterFunc(parts, end)
	defer undo()
	err := s.api.Run(listening)
	stop()
	err = errors.Join(err, group.Wait())
	return errors.Join(err, s.closeParts())
}
