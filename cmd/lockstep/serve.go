package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"lockstep/app"
	"lockstep/config"
)

const serveAbout = `Runs the relay alone. Its settings come from the environment and from the .env
file in the working directory. docs/CONFIG.md lists them;
CHAIN_ID, HEDERA_NETWORK, MIRROR_NODE_URL, OPERATOR_ID_MAIN and OPERATOR_KEY_MAIN
are what a relay needs at least.`

func runServe(ctx context.Context, args []string, std streams) error {
	if err := parse(newFlags("serve", serveAbout, std), args); err != nil {
		return err
	}
	cfg, err := loadConfig(std)
	if err != nil {
		return err
	}
	level := new(slog.LevelVar)
	if err := setLevel(level, cfg.Log); err != nil {
		return err
	}
	log, err := newLoggerAt(std.err, cfg.Log, level)
	if err != nil {
		return err
	}
	relay, err := app.New(cfg, version, log)
	if err != nil {
		return err
	}
	relay.Reloads(func() (config.Config, error) { return loadConfig(std) }, func(next config.Config) { _ = setLevel(level, next.Log) })
	defer reloadOnHangup(ctx, func(ctx context.Context) error { _, err := relay.Reload(ctx); return err }, log)()
	http, ws := relay.Endpoints()
	if err := relay.Listen(ctx, http, ws); err != nil {
		return err
	}
	log.Info("relay is ready", "http", relay.HTTPAddr(), "ws", relay.WSAddr(), "admin", relay.AdminAddr(), "health_and_metrics", statusAddr(relay), "chain", cfg.Server.ChainID.Hex(), "version", version)
	announced := make(chan struct{})
	go func() {
		defer close(announced)
		relay.Announce(ctx)
		relay.CheckAgain(ctx)
	}()
	err = relay.Run(ctx)
	<-announced
	return err
}

// setLevel sets the level below which nothing is logged.
func setLevel(to *slog.LevelVar, cfg config.Log) error {
	level, known := cfg.Least()
	if !known {
		return fmt.Errorf("LOG_LEVEL %q: want trace, debug, info, warn, error or fatal", cfg.Level)
	}
	to.Set(level)
	return nil
}

// reloadOnHangup has settings read again at each SIGHUP, until the returned function is called.
func reloadOnHangup(ctx context.Context, reload func(context.Context) error, log *slog.Logger) (stop func()) {
	hangups, over, ended := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer close(ended)
		for {
			select {
			case <-hangups:
				if err := reload(ctx); err != nil {
					log.Error("the settings were read again and are wrong: nothing was changed", "error", err)
				}
			case <-over:
				return
			}
		}
	}()
	return func() {
		signal.Stop(hangups)
		close(over)
		<-ended
	}
}

// statusAddr is where a relay answers probes and Prometheus.
func statusAddr(relay *app.App) string {
	if addr := relay.StatusAddr(); addr != "" {
		return addr
	}
	return relay.HTTPAddr()
}

// completed is the environment of this process with what the file of settings adds to it, and that file's path, "" for none.
func completed(std streams) (environ []string, file string, err error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, "", err
	}
	return config.Environ(std.env, dir)
}

// loadConfig reads the settings of this process. With an error the settings are those that
// could be read.
func loadConfig(std streams) (config.Config, error) {
	environ, _, err := completed(std)
	if err != nil {
		return config.Config{}, err
	}
	cfg, err := config.Load(environ)
	if err != nil {
		return cfg, fmt.Errorf("configuration:\n%w", err)
	}
	return cfg, nil
}
