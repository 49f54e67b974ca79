package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"lockstep/config"
	"lockstep/internal/access"
	"lockstep/internal/envx"
	"lockstep/internal/ledger"
	"lockstep/internal/redisx"
	"lockstep/internal/webhook"
	"lockstep/watch"
	"lockstep/watch/api"
	"lockstep/watch/sinks"
	"lockstep/watch/source"
)

const watchAbout = `Follows contracts on a chain and hands every event on: once, in order per contract, however many processes share the
work and whichever of them dies.

  lockstep watch                     as WATCH_FILE or the environment says (docs/WATCH.md, docs/CONFIG.md)
  lockstep watch watch.yaml          what to follow is in that file
  lockstep watch check watch.yaml    checks the file; with --block N prints what it would hand on of that block
  lockstep watch plan watch.yaml     prints what a start with the file would change of what is followed, and what each change does
  lockstep watch reset --chain N     forgets what was read of a chain that was reset itself; no process may run
  lockstep watch schema              prints the JSON Schema of that file, for editors
  lockstep watch key                 makes an API key for the listener (WATCH_ADDRESS); --role, --label`

func runWatch(ctx context.Context, args []string, std streams) error {
	if len(args) == 1 && args[0] == "schema" {
		_, err := std.out.Write(watch.FileSchema)
		return err
	}
	if len(args) > 0 {
		switch args[0] {
		case "check":
			return runWatchCheck(ctx, args[1:], std)
		case "reset":
			return runWatchReset(ctx, args[1:], std)
		case "plan":
			return runWatchPlan(ctx, args[1:], std)
		case "key":
			return makeWatchKey(ctx, args[1:], std)
		}
	}
	flags := newFlags("watch", watchAbout, std)
	settings, log, err := watchSettings(flags, std, args, 1)
	if err != nil {
		return err
	}
	plan, err := settings.Plan()
	if err != nil {
		return fmt.Errorf("configuration:\n%w", err)
	}
	redisx.LogTo(log) // the sinks report what matters
	toSinks, err := sinkDeps(std, settings, plan, log)
	if err != nil {
		return err
	}
	opening, cancel := context.WithTimeout(ctx, cmp.Or(settings.Patience.Duration(), watch.DefaultPatience))
	defer cancel()
	db, err := ledger.OpenWhenUp(opening, settings.DatabaseURL(), log, "nothing is read or handed on until it answers")
	if ctx.Err() != nil && err != nil {
		return nil // told to stop before it began
	}
	if err != nil {
		return err
	}
	instance := settings.Instance
	if instance == "" {
		if instance, err = os.Hostname(); err != nil {
			return errors.Join(fmt.Errorf("INSTANCE_ID is not set and the host has no name: %w", err), db.Close())
		}
	}
	service, err := watch.New(watch.Config{
		Plan: *plan, Instance: instance, Partition: settings.Partition, Partitions: settings.Partitions,
		Patience: settings.Patience.Duration(), Retention: settings.Retention.Duration(), ReadyLag: settings.ReadyLag, Version: version,
	}, watch.Deps{DB: db, Log: log, Sinks: func(spec string) (watch.Sink, error) { return sinks.New(spec, toSinks) }})
	if err != nil {
		return errors.Join(err, db.Close())
	}
	log.Info("watching", "instance", instance, "watches", len(plan.Watches), "chains", len(plan.Chains), "version", version)
	return errors.Join(serveWatch(ctx, settings, service, db, log), db.Close())
}

// serveWatch runs a process of watchers and its listener. Each of them ends the other.
func serveWatch(ctx context.Context, settings watch.Settings, service *watch.Service, db *ledger.DB, log *slog.Logger) error {
	if settings.Address == "off" {
		return service.Run(ctx)
	}
	for _, schema := range []ledger.Schema{watch.Schema, access.Schema} {
		if err := db.Migrate(ctx, schema); err != nil {
			return err
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(service.Collectors()...)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	keys := access.New(db, "", "")
	keys.Proxies = settings.Proxies()
	surface := api.New(api.Deps{
		Watchers: service, Keys: keys, Metrics: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), Version: version, Log: log,
	})
	if err := surface.Listen(ctx, settings.Address, settings.LoopbackToken); err != nil {
		return err
	}
	log.Info("the watchers' listener is open", "url", "http://"+surface.Addr())
	group, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	group.Go(func() error { defer stop(); return surface.Run(ctx) })
	group.Go(func() error { defer stop(); return service.Run(ctx) })
	return group.Wait()
}

func makeWatchKey(ctx context.Context, args []string, std streams) error {
	flags := newFlags("watch key", "Makes an API key for the listener of the watchers, and of a transaction manager on the same database.", std)
	var f txmFlags
	flags.StringVar(&f.role, "role", string(access.RoleAdmin), "read, send or admin")
	flags.StringVar(&f.label, "label", "", "a note for people")
	flags.TextVar(&f.networks, "networks", envx.Strings{}, "from where it may be used, such as 203.0.113.0/24,198.51.100.7; none for everywhere")
	settings, _, err := watchSettings(flags, std, args, 0)
	if err != nil {
		return err
	}
	return makeKey(ctx, settings.DatabaseURL(), "", "", f, std)
}

// onLedger opens a database for as long as do takes.
func onLedger(ctx context.Context, databaseURL string, do func(*ledger.DB) error) error {
	db, err := ledger.Open(ctx, databaseURL)
	if err != nil {
		return err
	}
	return errors.Join(do(db), db.Close())
}

// watchSettings reads a command line of at most so many words, and the settings of this process. The first word names the file.
func watchSettings(flags *flag.FlagSet, std streams, args []string, most int) (watch.Settings, *slog.Logger, error) {
	var s watch.Settings
	words, err := parseAnywhere(flags, args)
	if err != nil {
		return s, nil, err
	}
	if len(words) > most {
		fmt.Fprintf(flags.Output(), "%s: unexpected argument %q\n", flags.Name(), words[most])
		return s, nil, errUsage
	}
	environ, _, err := completed(std)
	if err != nil {
		return s, nil, err
	}
	c, err := config.LoadWatchers(environ)
	if err != nil {
		return s, nil, fmt.Errorf("configuration:\n%w", withMisspelt(err, c.Misspelt))
	}
	c.Watch.Know(environ)
	if len(words) == 1 {
		c.Watch.File = words[0]
	}
	log, err := newLogger(std.err, c.Log)
	if err != nil {
		return s, nil, err
	}
	config.WarnOfMisspelt(log, c.Misspelt)
	return c.Watch, log, nil
}

// sinkDeps are what sinks are made of.
func sinkDeps(std streams, settings watch.Settings, plan *watch.Plan, log *slog.Logger) (sinks.Deps, error) {
	guard, err := webhook.NewGuard(settings.WebhookAllow)
	if err != nil {
		return sinks.Deps{}, fmt.Errorf("WATCH_WEBHOOK_ALLOW: %w", err)
	}
	return sinks.Deps{
		Stdout: std.out, WebhookSecrets: settings.WebhookSecrets, Guard: guard, Agent: "lockstep/" + version, Plan: plan, ManagerKey: settings.ManagerToken(), KafkaPassword: settings.KafkaSecret(), Log: log,
	}, nil
}

// checkWatch says what `lockstep watch` would refuse for its settings alone. The sources and sinks that it makes connect to nobody.
func checkWatch(std streams, settings watch.Settings) error {
	plan, err := settings.Plan()
	if err != nil {
		return err
	}
	deps, err := sinkDeps(std, settings, plan, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range plan.Chains {
		pool, err := c.Source(source.Deps{Log: deps.Log})
		if err != nil {
			errs = append(errs, fmt.Errorf("chain %d: %w", c.ID, err))
			continue
		}
		pool.Close()
	}
	for _, w := range plan.Watches {
		for _, spec := range w.Sinks {
			sink, err := sinks.New(spec, deps)
			if err != nil {
				errs = append(errs, fmt.Errorf("watch %s: %w", w.Name, err))
				continue
			}
			sink.Close()
		}
	}
	return errors.Join(errs...)
}

// runWatchReset forgets what was read of a chain.
func runWatchReset(ctx context.Context, args []string, std streams) error {
	flags := newFlags("watch reset", "Forgets all that was read of a chain, for one that was reset itself and begins with another block. No process of watchers may run on the database.", std)
	chain := flags.Uint64("chain", 0, "the chain's id")
	settings, _, err := watchSettings(flags, std, args, 0)
	if err != nil {
		return err
	}
	if *chain == 0 {
		flags.Usage()
		return errUsage
	}
	if err := onLedger(ctx, settings.DatabaseURL(), func(db *ledger.DB) error { return watch.Reset(ctx, db, *chain) }); err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.out, "chain %d is read from the beginning by the next process that starts\n", *chain)
	return err
}

// runWatchPlan compares a file with what the ledger remembers. It changes nothing.
func runWatchPlan(ctx context.Context, args []string, std streams) error {
	flags := newFlags("watch plan", "Prints the differences between a file and what is followed, and what a start with the file does about each.", std)
	settings, _, err := watchSettings(flags, std, args, 1)
	if err != nil {
		return err
	}
	plan, err := settings.Plan()
	if err != nil {
		return err
	}
	var changes []watch.Change
	if err := onLedger(ctx, settings.DatabaseURL(), func(db *ledger.DB) (err error) { changes, err = plan.Changes(ctx, db); return err }); err != nil {
		return err
	}
	refused := 0
	for _, c := range changes {
		fmt.Fprintln(std.out, c)
		if c.Refused {
			refused++
		}
	}
	switch {
	case refused > 0:
		return fmt.Errorf("%w: %d changes are refused", watch.ErrPlan, refused)
	case len(changes) == 0:
		fmt.Fprintln(std.out, "no differences: this is what is followed")
	}
	return nil
}

func runWatchCheck(ctx context.Context, args []string, std streams) error {
	flags := newFlags("watch check", "Checks a file with what to follow; all mistakes are listed with their lines.", std)
	block := flags.Int64("block", -1, "print what would be handed on of this block")
	settings, log, err := watchSettings(flags, std, args, 1)
	if err != nil {
		return err
	}
	plan, err := settings.Plan()
	if err != nil {
		return err
	}
	if *block < 0 {
		if err := checkWatch(std, settings); err != nil {
			return err
		}
		_, err = fmt.Fprintf(std.out, "no mistakes; watches: %d, chains: %d\n", len(plan.Watches), len(plan.Chains))
		return err
	}
	events, err := watch.Check(ctx, plan, uint64(*block), log)
	if err != nil {
		return err
	}
	out := json.NewEncoder(std.out)
	for _, e := range events {
		if err := out.Encode(e); err != nil {
			return err
		}
	}
	noun := "events"
	if len(events) == 1 {
		noun = "event"
	}
	_, err = fmt.Fprintf(std.err, "%d %s\n", len(events), noun)
	return err
}
