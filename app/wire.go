package app

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"

	"lockstep/config"
	"lockstep/consensus"
	"lockstep/ethapi"
	"lockstep/internal/relay/apikey"
	"lockstep/internal/relay/capacity"
	"lockstep/internal/relay/limit"
	"lockstep/internal/relay/telemetry"
	"lockstep/lock"
	"lockstep/mirror"
	"lockstep/precheck"
	"lockstep/rpc"
	"lockstep/submit"
)

// New builds the relay. It opens no port and starts nothing. Further methods are served
// beside its own, or in place of those of the same name: those of a chain for development.
func New(cfg config.Config, version string, log *slog.Logger, further ...rpc.Method) (*App, error) {
	log = slog.New(requestHandler{log.Handler()})
	a := &App{cfg: cfg, version: version, log: log, registry: prometheus.NewRegistry(), further: further}
	if len(cfg.Idle) > 0 {
		log.Warn("settings of other relays that have no effect here; docs/CONFIG.md says why", "settings", strings.Join(cfg.Idle, " "))
	}
	config.WarnOfMisspelt(log, cfg.Misspelt)
	config.WarnOfDoubts(log, cfg.Doubts)
	a.reloading.now = cfg
	a.upstreams.logs = a.outageLogs()
	if err := a.wire(); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

func (a *App) wire() (err error) {
	cfg := a.cfg
	if a.tracer, err = telemetry.New(cfg.Tracing, a.version, a.log); err != nil {
		return err
	}
	a.memory = capacity.NewMemory(cfg.Capacity)
	if err = a.openRedis(); err != nil {
		return err
	}
	if a.locks, err = lock.New(cfg.Lock, lock.Deps{Redis: a.lockRedis, Log: a.log}); err != nil {
		return err
	}
	a.openCache()
	if a.mirror, err = mirror.New(cfg.Mirror, mirror.Options{Log: a.log, Origin: origin, WentBack: a.wentBack, Store: a.cache}); err != nil {
		return err
	}
	if a.consensus, err = consensus.New(cfg.Consensus, a.log); err != nil {
		return err
	}
	a.consensus.Follow(AddressBook(a.mirror))
	a.consensus.ReceiptsAlsoFrom(mirrorReceipts(a.mirror))
	a.costs = newCosts(mirrorCosts{a})
	nodes := nodes{a.consensus}
	if err = a.openPool(); err != nil {
		return err
	}
	a.budget, err = limit.New(cfg.Limit, limit.Deps{
		Redis: a.redis, Scope: cfg.Server.ChainID.Hex(), Fees: a.costs.lookUp, Rate: a.rate, Log: a.log,
	})
	if err != nil {
		return err
	}
	a.nonces = limit.NewWrongNonces(cfg.Limit, a.redis)
	a.submitter, err = submit.New(cfg.Submit, submit.Deps{
		Rules:    precheck.Rules{Config: cfg.Precheck, ChainID: uint64(cfg.Server.ChainID)},
		Locks:    a.locks,
		Ordering: cfg.Lock,
		Nodes:    nodes,
		Files:    nodes,
		Subsidy:  a.consensus.Subsidy,
		Pool:     a.pool,
		Promises: a.promises,
		Trace:    a.trace,
		Chain:    chain{mirror: a.mirror, bufferPercent: cfg.API.GasPriceBufferPercent},
		Budget:   a.budget,
		Nonces:   a.nonces,
		Charged:  a.toldCharges(),
		Asker:    a.asker,
		Log:      a.log,
		WaitTime: cfg.Consensus.VerdictWait(),
	})
	if err != nil {
		return err
	}
	processors := capacity.NewProcessors(cfg.Capacity)
	api, err := ethapi.New(cfg.API, ethapi.Deps{
		ChainID: uint64(cfg.Server.ChainID), Version: a.version, Profile: cfg.RPC.Profile, Mirror: a.mirror,
		Operator: a.operator(), MaxCallGas: cfg.Precheck.MaxGasLimit, Filters: a.filters(), Log: a.log,
		Processors: processors, Pool: a.pool, PoolAPI: cfg.Pool.API, Trace: a.trace, NoAdmin: cfg.Server.DisableAdmin, Manager: cfg.Server.ManagerURL != "", Settings: a.settings,
		HTTPAPIs: cfg.RPC.HTTP.APIs, WebSocketAPIs: cfg.RPC.WebSocket.APIs,
	})
	if err != nil {
		return err
	}
	a.subscriptions = ethapi.NewSubscriptions(api)
	methods, err := rpc.NewRegistry(a.withFurther(slices.Concat(
		api.Methods(), a.subscriptions.Methods(), []rpc.Method{ethapi.SendRawTransaction(a.sender()), ethapi.SendRawTransactionSync(api, a.sender())}, a.managerMethods(),
	))...)
	if err != nil {
		return err
	}
	metrics := rpc.NewMetrics()
	calls := a.calls()
	allow := calls.Allow
	if cfg.RPC.RateLimit.Disabled {
		allow = nil
	}
	a.keys = apikey.NewRing(cfg.RPC.Keys.APIKeys)
	quotas := limit.NewQuotas(a.redis, cfg.Limit.RedisTimeout.Duration())
	a.dispatcher, err = rpc.NewDispatcher(cfg.RPC, methods, rpc.Options{
		Logger: a.log, Metrics: metrics, Allow: allow, StoreType: calls.StoreType(), Keys: a.keys, Spend: quotas.Spend, Unknown: ethapi.UnknownMethod,
		NotInBatches: cfg.API.NotInBatches, Notification: ethapi.Notification,
		Memory: a.memory, Heavy: capacity.NewHeavyReads(cfg.Capacity), Processors: processors, Tracer: a.tracer,
	})
	if err != nil {
		return err
	}
	a.warnOfIdle(cfg.RPC.Keys.APIKeys)
	a.warnOfIdleLimits(cfg.RPC.RateLimit.Methods)
	a.ws = rpc.NewWSServer(a.dispatcher)
	a.http = rpc.NewHTTPServer(a.dispatcher, a.httpOptions(api))
	return a.register(metrics.Collectors(), calls.Collectors(), a.keys.Collectors(), quotas.Collectors(), a.budget.Collectors(), a.nonces.Collectors(), a.locks.Collectors(), a.mirror.Collectors(), a.cache.Collectors(), a.consensus.Collectors(), a.submitter.Collectors(), a.subscriptions.Collectors(), a.pool.Collectors(), a.promises.Collectors(), a.trace.Collectors(), api.Collectors(), a.memory.Collectors(), a.costs.collectors(), a.tracer.Collectors(), a.processCollectors())
}

// accepted tells subscribers of a transaction that a node has accepted.
func (a *App) accepted(raw []byte) { a.subscriptions.Accepted(raw) }

// operator returns the operator's EVM address, or nil when it has none.
func (a *App) operator() *common.Address {
	address, ok := a.consensus.OperatorAddress()
	if !ok {
		return nil
	}
	return &address
}

// origin tells the mirror node whose request a read is part of.
func origin(ctx context.Context) mirror.Origin {
	request, ok := rpc.FromContext(ctx)
	if !ok {
		return mirror.Origin{}
	}
	return mirror.Origin{RequestID: request.ID, ClientIP: request.IP}
}
