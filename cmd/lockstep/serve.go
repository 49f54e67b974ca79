package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"lockstep/app"
	"lockstep/config"
)

const serveAbout = `Runs the relay alone. Its settings come from the environment and from the nearest
.env file, looked for from the working directory upwards. docs/CONFIG.md lists them;
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
	log, err := newLogger(std.err, cfg.Log)
	if err != nil {
		return err
	}
	relay, err := app.New(cfg, version, log)
	if err != nil {
		return err
	}
	http, ws := relay.Endpoints()
	if err := relay.Listen(ctx, http, ws); err != nil {
		return err
	}
	log.Info("relay is ready", "http", relay.HTTPAddr(), "ws", relay.WSAddr(), "admin", relay.AdminAddr(), "chain", cfg.Server.ChainID.Hex(), "version", version)
	return relay.Run(ctx)
}

// loadConfig reads the settings of this process.
func loadConfig(std streams) (config.Config, error) {
	dir, err := os.Getwd()
	if err != nil {
		return config.Config{}, err
	}
	environ, _, err := config.Environ(std.env, dir)
	if err != nil {
		return config.Config{}, err
	}
	cfg, err := config.Load(environ)
	if err != nil {
		return cfg, fmt.Errorf("configuration:\n%w", err)
	}
	return cfg, nil
}

func runConfig(_ context.Context, args []string, std streams) error {
	if err := parse(newFlags("config", "Prints every setting with the value it has here. Secrets are masked.", std), args); err != nil {
		return err
	}
	cfg, err := loadConfig(std)
	if err != nil {
		return err
	}
	return printConfig(std.out, cfg)
}

func printConfig(w io.Writer, cfg config.Config) error {
	for _, s := range cfg.Effective() {
		if _, err := fmt.Fprintf(w, "%s=%s\n", s.Name, s.Value); err != nil {
			return err
		}
	}
	return nil
}
