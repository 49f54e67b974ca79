package main

import (
	"context"
	"fmt"
	"strings"

	"lockstep/config"
	"lockstep/console/page"
	"lockstep/txmgr/service"
)

// devSigners is how many accounts the manager of `lockstep dev --tx` sends from.
const devSigners = 3

// managedBy is the setting by which a relay refuses the accounts of a chain's manager.
func managedBy(chain *chain) string {
	var list []string
	for _, a := range chain.Network.Signers() {
		list = append(list, a.Address)
	}
	return "TXM_MANAGED_SIGNERS=" + strings.Join(list, ",")
}

// startDevManager puts a manager beside the relay of `lockstep dev`. It goes to the chain's
// nodes itself: the relay refuses transactions of its accounts, which would take its nonces. ui is the relay's page, "" for none.
func startDevManager(ctx context.Context, chain *chain, std streams, address, ui string) (*service.Service, error) {
	environ, err := devEnviron(chain, std.env)
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, a := range chain.Network.Signers() {
		keys = append(keys, a.PrivateKey)
	}
	cfg, err := config.LoadManager(append(environ,
		`TXM_CHAINS={"298":{"driver":"hedera"}}`, "DATABASE_URL=memory:", "DATABASE_URL_FILE=", "TXM_REDIS_URL=", "TXM_REDIS_URL_FILE=",
		"RELAYER_PRIVATE_KEYS="+strings.Join(keys, ","), "TXM_ADDRESS="+address, "TXM_LOOPBACK_TOKEN=false", "INSTANCE_ID=dev",
	))
	if err != nil {
		return nil, fmt.Errorf("configuration:\n%w", err)
	}
	log, err := newLogger(std.err, cfg.Log)
	if err != nil {
		return nil, err
	}
	deps := service.Deps{Drivers: drivers(cfg, log), Version: version, Log: log}
	if ui != "" {
		deps.Beside = []page.Link{{Text: "Chain and relay", URL: ui}}
	}
	manager, err := service.New(ctx, cfg.TXM, deps)
	if err != nil {
		return nil, err
	}
	if err := manager.Listen(ctx); err != nil {
		return nil, closeAfter(manager, err)
	}
	return manager, nil
}
