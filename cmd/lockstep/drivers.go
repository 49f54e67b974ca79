package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"lockstep/app"
	"lockstep/config"
	"lockstep/consensus"
	"lockstep/internal/envx"
	"lockstep/internal/secret"
	"lockstep/mirror"
	"lockstep/txmgr"
	"lockstep/txmgr/ethchain"
	"lockstep/txmgr/hederachain"
	"lockstep/txmgr/nearchain"
	"lockstep/txmgr/service"
)

// drivers are the chains' drivers by the name that TXM_CHAINS gives them.
func drivers(cfg config.Manager, log *slog.Logger) map[string]service.Driver {
	hedera := func(_ context.Context, spec service.Spec) (txmgr.Chain, error) { return openHedera(cfg, spec, log) }
	ethereum := func(_ context.Context, spec service.Spec) (txmgr.Chain, error) { return openEthereum(spec, log) }
	return map[string]service.Driver{"": ethereum, "ethereum": ethereum, "hedera": hedera, "near": openNEAR}
}

// openEthereum speaks to JSON-RPC endpoints.
func openEthereum(spec service.Spec, log *slog.Logger) (txmgr.Chain, error) {
	id, err := chainNumber(spec)
	if err != nil {
		return nil, err
	}
	tip, price, err := spec.Prices()
	if err != nil {
		return nil, err
	}
	cfg := ethchain.Config{
		ID: id, URLs: spec.URL, Depth: spec.Depth, NoPool: spec.Mempool != nil && !*spec.Mempool, Log: log,
		GasAdded: spec.GasAdded, GasCap: spec.GasCap, MinTip: tip, GasPrice: price, Dev: spec.Dev,
	}
	if spec.InFlight != nil {
		cfg.InFlight = *spec.InFlight
	}
	return ethchain.New(cfg)
}

// openNEAR speaks to nodes of nearcore.
func openNEAR(_ context.Context, spec service.Spec) (txmgr.Chain, error) {
	cfg := nearchain.Config{ID: spec.ID, URLs: spec.URL}
	if spec.InFlight != nil {
		cfg.InFlight = *spec.InFlight
	}
	if d := spec.Delegates; d != nil {
		var err error
		if cfg.Delegates, err = nearchain.NewDelegates(d.Receivers, d.MaxDeposit, d.MaxGas); err != nil {
			return nil, fmt.Errorf("delegates: %w", err)
		}
	}
	return nearchain.New(cfg)
}

func chainNumber(spec service.Spec) (uint64, error) {
	id, err := strconv.ParseUint(spec.ID, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not the number of a chain", spec.ID)
	}
	return id, nil
}

// openHedera speaks to consensus nodes, and reads from a mirror node.
func openHedera(cfg config.Manager, spec service.Spec, log *slog.Logger) (txmgr.Chain, error) {
	id, err := chainNumber(spec)
	if err != nil {
		return nil, err
	}
	nodes, reader := cfg.Consensus, cfg.Mirror
	if len(spec.Network) > 0 {
		var name string
		if json.Unmarshal(spec.Network, &name) != nil {
			name = string(spec.Network)
		}
		nodes.Network = name
	}
	if spec.Operator != "" {
		nodes.OperatorID = spec.Operator
	}
	if spec.Key != "" {
		nodes.OperatorKey, nodes.OperatorKeyFile = spec.Key, ""
	}
	if spec.KeyFormat != "" {
		nodes.OperatorKeyFormat = spec.KeyFormat
	}
	if len(spec.URL) > 0 {
		reader.URL = secret.URL(strings.Join(spec.URL, ","))
	}
	if nodes.OperatorID == "" {
		return nil, fmt.Errorf("the driver hedera needs an operator, who pays for what it sends: OPERATOR_ID_MAIN and OPERATOR_KEY_MAIN")
	}
	// An answer is awaited while the owner of a signer may trust its lease.
	longest := cfg.TXM.Manager.SendTimeout.Duration() * 3 / 4
	if nodes.LegacyAttemptTimeout = 0; nodes.AttemptTimeout.Duration() > longest {
		nodes.AttemptTimeout = envx.Millis(max(longest, time.Millisecond))
	}
	mirrorNode, err := mirror.New(reader, mirror.Options{Log: log})
	if err != nil {
		return nil, err
	}
	client, err := consensus.New(nodes, log)
	if err != nil {
		return nil, err
	}
	client.Follow(app.AddressBook(mirrorNode))
	chain := hederachain.Config{ID: id, Log: log}
	if spec.InFlight != nil {
		chain.InFlight = *spec.InFlight
	}
	return hederachain.New(chain, client, mirrorNode)
}
