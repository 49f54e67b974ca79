package app

import (
	"context"
	"runtime"
	"runtime/metrics"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/hedera"
)

// processCollectors are the metrics of the relay as a whole: its build, its operator, and what
// dashboards of the TypeScript relay ask of the process.
func (a *App) processCollectors() []prometheus.Collector {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "lockstep_build_info", Help: "1, with the version of the program and of Go.",
		ConstLabels: prometheus.Labels{"version": a.version, "goversion": runtime.Version()},
	})
	build.Set(1)
	clients := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rpc_relay_client_service", Help: "Clients of consensus nodes that were replaced as a whole: always 0, since connections are renewed one by one.",
	}, []string{"transactions", "errors"})
	clients.WithLabelValues("", "")
	a.operatorFits = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lockstep_operator_ok",
		Help: "1 if OPERATOR_ID_MAIN existed and OPERATOR_KEY_MAIN was its key when the relay looked last, 0 if not. It looks at its start, and once a minute until they are right. No series: nobody has told yet, or the relay takes no transactions.",
	}, nil)
	a.chainFits = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "lockstep_chain_id_ok",
		Help: "1 if CHAIN_ID is the chain id of the network, as the mirror node's EVM shows it, 0 if not. No series: the mirror node has not told it yet.",
	}, nil)
	all := []prometheus.Collector{build, clients, upstreamsUp{a}, a.operatorFits, a.chainFits}
	for name, heap := range map[string]struct{ help, sample string }{
		"rpc_relay_nodejs_heap_size_used_bytes":  {"Bytes of objects on the heap of Go, under the name that hiero-json-rpc-relay has.", "/memory/classes/heap/objects:bytes"},
		"rpc_relay_nodejs_heap_size_total_bytes": {"Bytes that Go has from the system, under the name that hiero-json-rpc-relay has.", "/memory/classes/total:bytes"},
		"rpc_relay_nodejs_external_memory_bytes": {"Bytes of Go's stacks, under the name that hiero-json-rpc-relay has for memory beside the heap.", "/memory/classes/heap/stacks:bytes"},
	} {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: heap.help}, func() float64 {
			sample := []metrics.Sample{{Name: heap.sample}}
			metrics.Read(sample)
			return float64(sample[0].Value.Uint64())
		}))
	}
	for name, part := range map[string]func(syscall.Rusage) syscall.Timeval{
		"user":   func(u syscall.Rusage) syscall.Timeval { return u.Utime },
		"system": func(u syscall.Rusage) syscall.Timeval { return u.Stime },
	} {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "rpc_relay_process_cpu_" + name + "_seconds_total", Help: "Processor time of the process, " + name + " part.",
		}, func() float64 {
			var usage syscall.Rusage
			if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
				return 0
			}
			return time.Duration(syscall.TimevalToNsec(part(usage))).Seconds()
		}))
	}
	if id, ok := a.consensus.Operator(); ok {
		all = append(all, &operatorBalance{id: id, ask: a.balanceOf, desc: prometheus.NewDesc(
			"rpc_relay_operator_balance", "Tinybars of the operator, as the mirror node showed them last; mode and type are always empty.", []string{"mode", "type", "accountId"}, nil,
		)})
	}
	return all
}

func (a *App) balanceOf(ctx context.Context, id hedera.ID) (hedera.Tinybar, bool) {
	account, err := a.mirror.AccountByID(ctx, id)
	if err != nil || !account.BalanceKnown {
		return 0, false
	}
	return account.Balance, true
}

// operatorBalance asks for the operator's balance when it is scraped, now and then. While it is
// not known there is no series.
type operatorBalance struct {
	id   hedera.ID
	ask  func(context.Context, hedera.ID) (hedera.Tinybar, bool)
	desc *prometheus.Desc

	mu     sync.Mutex
	asked  time.Time      // guarded by mu
	amount hedera.Tinybar // guarded by mu
	known  bool           // guarded by mu
}

const balanceFresh = 10 * time.Second

// balanceTimeout is for the look at the balance: scrapers wait ten seconds. Tests prolong it.
var balanceTimeout = 2 * time.Second

// Describe implements prometheus.Collector.
func (o *operatorBalance) Describe(out chan<- *prometheus.Desc) { out <- o.desc }

// Collect implements prometheus.Collector.
func (o *operatorBalance) Collect(out chan<- prometheus.Metric) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.asked.IsZero() || time.Since(o.asked) > balanceFresh {
		ctx, cancel := context.WithTimeout(context.Background(), balanceTimeout) //nolint:forbidigo // a scrape has none
		defer cancel()
		o.amount, o.known = o.ask(ctx, o.id)
		o.asked = time.Now()
	}
	if o.known {
		out <- prometheus.MustNewConstMetric(o.desc, prometheus.GaugeValue, float64(o.amount), "", "", o.id.String())
	}
}
