package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"lockstep/cache"
	"lockstep/config"
	"lockstep/consensus"
	"lockstep/ethapi"
	"lockstep/internal/redisx"
	"lockstep/limit"
	"lockstep/lock"
	"lockstep/mirror"
	"lockstep/precheck"
	"lockstep/rpc"
	"lockstep/submit"
)

// New builds the relay. It opens no port and starts nothing.
func New(cfg config.Config, version string, log *slog.Logger) (*App, error) {
	a := &App{cfg: cfg, version: version, log: log, registry: prometheus.NewRegistry()}
	if len(cfg.Idle) > 0 {
		log.Warn("settings of other relays that have no effect here; docs/CONFIG.md says why", "settings", strings.Join(cfg.Idle, " "))
	}
	if err := a.wire(); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

func (a *App) wire() (err error) {
	cfg := a.cfg
	if cfg.Redis.Enabled {
		redis.SetLogger(redisLog{a.log})
		if a.redis, err = redisx.Open(cfg.Redis.URL.Reveal(), redisx.Options{Timeout: cfg.Lock.RedisTimeout.Duration()}); err != nil {
			return fmt.Errorf("REDIS_URL: %w", err)
		}
	}
	// A client of its own: a crowd of readers must not keep the locks from a connection.
	if cfg.Redis.Enabled && cfg.Cache.Enabled {
		if a.cacheRedis, err = redisx.Open(cfg.Redis.URL.Reveal(), redisx.Options{Timeout: cfg.Cache.Timeout.Duration(), PoolSize: 16}); err != nil {
			return fmt.Errorf("REDIS_URL: %w", err)
		}
	}
	a.cache = cache.New(cfg.Cache, a.cacheRedis, a.log)
	if a.locks, err = lock.New(cfg.Lock, lock.Deps{Redis: a.redis, Log: a.log}); err != nil {
		return err
	}
	options := mirror.Options{Log: a.log, Origin: origin}
	if a.cacheRedis != nil {
		options.Store = a.cache
	}
	if a.mirror, err = mirror.New(cfg.Mirror, options); err != nil {
		return err
	}
	if a.consensus, err = consensus.New(cfg.Consensus, a.log); err != nil {
		return err
	}
	a.consensus.Follow(addressBook(a.mirror))
	a.consensus.Consult(witness(a.mirror))
	nodes := nodes{a.consensus}
	if err = a.openPool(); err != nil {
		return err
	}
	a.budget, err = limit.New(cfg.Limit, limit.Deps{
		Redis: a.redis, Scope: cfg.Server.ChainID.Hex(), Fee: a.fee, Rate: a.rate, Log: a.log,
	})
	if err != nil {
		return err
	}
	a.submitter, err = submit.New(cfg.Submit, submit.Deps{
		Rules:    precheck.Rules{Config: cfg.Precheck, ChainID: uint64(cfg.Server.ChainID)},
		Locks:    a.locks,
		Ordering: cfg.Lock,
		Nodes:    nodes,
		Files:    nodes,
		Subsidy:  a.consensus.Subsidy,
		Pool:     a.toldPool(),
		Trace:    a.toldTrace(),
		Chain:    chain{mirror: a.mirror, bufferPercent: cfg.API.GasPriceBufferPercent},
		Budget:   a.budget,
		ClientIP: clientIP,
		Log:      a.log,
		Patience: cfg.Consensus.RequestTimeout.Duration(),
	})
	if err != nil {
		return err
	}
	filters, err := a.sharedFilters()
	if err != nil {
		return err
	}
	api, err := ethapi.New(cfg.API, ethapi.Deps{
		ChainID: uint64(cfg.Server.ChainID), Version: a.version, Profile: cfg.RPC.Profile, Mirror: a.mirror,
		Operator: a.operator(), MaxCallGas: cfg.Precheck.MaxGasLimit, Filters: filters, Log: a.log,
		Pool: a.askedPool(), PoolAPI: cfg.Pool.API, Trace: a.askedTrace(), NoAdmin: cfg.Server.DisableAdmin, Settings: a.settings,
		HTTPAPIs: cfg.RPC.HTTP.APIs, WebSocketAPIs: cfg.RPC.WebSocket.APIs,
	})
	if err != nil {
		return err
	}
	a.subscriptions = ethapi.NewSubscriptions(api)
	methods, err := rpc.NewRegistry(slices.Concat(
		api.Methods(), a.subscriptions.Methods(), []rpc.Method{ethapi.SendRawTransaction(a.submitter), ethapi.SendRawTransactionSync(api, a.submitter)},
	)...)
	if err != nil {
		return err
	}
	metrics := rpc.NewMetrics()
	limiter, collectors := a.limiter()
	dispatcher, err := rpc.NewDispatcher(cfg.RPC, methods, rpc.Options{Logger: a.log, Metrics: metrics, Limiter: limiter})
	if err != nil {
		return err
	}
	a.ws = rpc.NewWSServer(dispatcher)
	a.http = rpc.NewHTTPServer(dispatcher, rpc.HTTPOptions{Handlers: a.pages(api), Upgrade: a.ws})
	return a.register(metrics.Collectors(), collectors, a.budget.Collectors(), a.locks.Collectors(), a.mirror.Collectors(), a.cache.Collectors(), a.consensus.Collectors(), a.submitter.Collectors(), a.subscriptions.Collectors(), a.pool.Collectors(), a.trace.Collectors(), api.Collectors())
}

// sharedFilters opens the fleet's store of filters; nil if they are kept in this process.
// Its client is its own, for the reason that the cache has one.
func (a *App) sharedFilters() (_ ethapi.FilterStore, err error) {
	api := a.cfg.API
	if !a.cfg.Redis.Enabled || !api.SharedFilters || !api.Filters {
		return nil, nil
	}
	timeout := api.SharedFiltersTimeout.Duration()
	if a.filterRedis, err = redisx.Open(a.cfg.Redis.URL.Reveal(), redisx.Options{Timeout: timeout, PoolSize: 16}); err != nil {
		return nil, fmt.Errorf("REDIS_URL: %w", err)
	}
	return cache.NewFilters(a.filterRedis, api.MaxFilters, api.FilterTTL.Duration(), timeout), nil
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

// redisLog keeps what the Redis library has to say among the debug lines: package lock
// reports what matters.
type redisLog struct{ log *slog.Logger }

// Printf implements the library's logger.
func (l redisLog) Printf(ctx context.Context, format string, v ...any) {
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.LogAttrs(ctx, slog.LevelDebug, "redis client", slog.String("message", fmt.Sprintf(format, v...)))
	}
}

// origin tells the mirror node whose request a read is part of.
func origin(ctx context.Context) mirror.Origin {
	request, ok := rpc.FromContext(ctx)
	if !ok {
		return mirror.Origin{}
	}
	return mirror.Origin{RequestID: request.ID, ClientIP: request.IP}
}
