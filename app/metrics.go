package app

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/internal/hedera"
	"lockstep/internal/relay/capacity"
)

// A relay keeps little memory and allocates much. By default the garbage collector lets the heap
// grow to twice what is kept. Under load it then runs many times a second and takes a tenth of the
// processor. Therefore the heap may grow to busyHeap under load. Without load the default holds, so
// that an idle relay gives memory back.
const (
	busyHeap  = 64 << 20 // bytes
	busyRate  = 16 << 20 // bytes allocated per second that count as load
	usualGOGC = 100
)

// Memory that was needed for a while goes back to the system soon after it. The collector by itself
// keeps it for minutes, and operators pay for it.
const (
	calm     = 2 * time.Second // between two looks
	largeUse = 32 << 20        // bytes that are worth the collection that it takes
	crowd    = 1000            // goroutines whose end is worth it: each connection has one or more
)

// release gives memory back after large requests and many connections, until ctx ends.
func release(ctx context.Context, m *capacity.Memory) error {
	ticker := time.NewTicker(calm)
	defer ticker.Stop()
	_ = forgetProgram() // if it cannot be done, nothing is lost
	last := readHeap()
	r := releaser{least: last.resident, helped: true} // the parts that start beside this one leave something, too
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now := readHeap()
		if r.due(now, now.allocated-last.allocated, m.Peak()) {
			before := now.resident
			debug.FreeOSMemory()
			_ = forgetProgram() // as above
			now = readHeap()
			r = releaser{least: now.resident, helped: before > now.resident+largeUse/4}
		}
		last = now
	}
}

// releaser decides when memory is to be given back.
type releaser struct {
	least uint64 // bytes that the process needed least, since it gave memory back
	held  int64  // the maximum of bytes that requests held since then
	// maximum is the largest number of goroutines since then. Those that have ended leave memory that nobody asks for until the next
	// collection, and with little to do that is minutes away.
	maximum uint64
	// helped tells that something was given back then: there may be more by now.
	helped bool
}

// due is told how things are, what was allocated, and the maximum that was held, since the last time.
func (r *releaser) due(now heap, allocated uint64, held int64) bool {
	r.least, r.held, r.maximum = min(r.least, now.resident), max(r.held, held), max(r.maximum, now.goroutines)
	if r.held > largeUse && held < r.held/4 {
		return true // the rest of the load does not matter
	}
	if allocated >= busyRate {
		return false // a busy relay would ask for the same pages again at once
	}
	if r.maximum > crowd && now.goroutines < r.maximum/2 {
		return true
	}
	return (r.helped || now.resident > r.least+largeUse) && held < largeUse/4
}

// collect sets the limits of the garbage collector until ctx ends. It leaves alone what the operator
// has set with GOMEMLIMIT and GOGC.
func collect(ctx context.Context, limit int64) error {
	if os.Getenv("GOMEMLIMIT") == "" {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	}
	if os.Getenv("GOGC") != "" {
		<-ctx.Done()
		return nil
	}
	defer debug.SetGCPercent(debug.SetGCPercent(usualGOGC))
	const interval = 500 * time.Millisecond
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	last, set := readHeap(), usualGOGC
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now := readHeap()
		percent := gcPercent(now.live, float64(now.allocated-last.allocated)/interval.Seconds())
		if percent < set*9/10 || percent > set*11/10 { // each change stops the world for a moment
			debug.SetGCPercent(percent)
			set = percent
		}
		last = now
	}
}

// gcPercent returns GOGC for a heap of which the last collection left live bytes, while the process
// allocates rate bytes per second.
func gcPercent(live uint64, rate float64) int {
	if rate < busyRate {
		return usualGOGC
	}
	live = max(live, 1<<20)
	return max(usualGOGC, int(busyHeap*100/live)-100)
}

// heap is the state of the heap.
type heap struct {
	live      uint64 // bytes that the last collection left
	allocated uint64 // bytes since the start
	resident  uint64 // bytes that the runtime has from the system

	goroutines uint64
}

func readHeap() heap {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/sched/goroutines:goroutines"},
	}
	metrics.Read(samples)
	value := func(i int) uint64 { return samples[i].Value.Uint64() }
	return heap{live: value(0), allocated: value(1), resident: value(2) - value(3), goroutines: value(4)}
}

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
