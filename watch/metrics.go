package watch

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics keep the names that dashboards of older services know, and add some.
type metrics struct {
	contracts    prometheus.Gauge
	blocks       prometheus.Counter
	published    prometheus.Counter
	leader       prometheus.Gauge
	instances    prometheus.Gauge
	registered   prometheus.Gauge
	elections    prometheus.Counter
	deduplicated prometheus.Counter
	lag          *prometheus.GaugeVec
	headAge      *prometheus.GaugeVec
	blockTime    *prometheus.GaugeVec
	doubts       *prometheus.CounterVec
	calls        prometheus.Counter
	reorgs       prometheus.Counter
	sinks        *prometheus.HistogramVec
	failures     *prometheus.CounterVec
	undecoded    prometheus.Counter
	repaired     prometheus.Counter
	settled      *prometheus.CounterVec
	current      prometheus.Gauge
	beat         atomic.Int64 // unix nanoseconds of the last heartbeat
	beatAge      prometheus.GaugeFunc
}

func newMetrics() *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		contracts:    gauge("relayer_escrows_monitored", "Contracts whose events this process reads, factories not included."),
		blocks:       counter("relayer_blocks_processed", "Blocks that this process has read; a block counts once for each step that reads it."),
		published:    counter("relayer_events_published", "Messages that a sink has acknowledged."),
		leader:       gauge("relayer_is_leader", "1 if this process owns a factory, else 0."),
		instances:    gauge("total_active_instances", "Processes of the fleet that are alive."),
		registered:   gauge("total_escrows_registered", "Contracts that the fleet follows, factories not included."),
		elections:    counter("leader_election_count", "How often this process became the owner of a factory."),
		deduplicated: counter("event_deduplication_hits", "Events that were read again and stood in the ledger already."),
		lag:          prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "watch_lag_blocks", Help: "Blocks between the highest head of all endpoints and the unit of this process that is furthest behind, and those that are due where the head stands."}, []string{"chain"}),
		headAge:      prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "watch_head_age_seconds", Help: "Seconds since an endpoint has first shown the highest head; told by the process that reads it."}, []string{"chain"}),
		blockTime:    prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "watch_block_seconds", Help: "Seconds from one block to the next; absent where nobody knows, and for developers' chains."}, []string{"chain"}),
		doubts:       prometheus.NewCounterVec(prometheus.CounterOpts{Name: "watch_doubts_total", Help: "Answers without an event that the filter of their block names, which nothing explained: the blocks are asked for again."}, []string{"chain"}),
		calls:        counter("watch_rpc_calls_total", "JSON-RPC calls sent to endpoints; each item of a batch counts."),
		reorgs:       counter("watch_reorgs_total", "Reorganisations that units of this process took into account."),
		sinks:        prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "watch_sink_seconds", Help: "Time until a sink acknowledged a batch or refused it, in seconds.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 8)}, []string{"sink"}),
		failures:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "watch_sink_failures_total", Help: "Batches that a sink did not acknowledge; they are sent again."}, []string{"sink"}),
		undecoded:    counter("watch_undecoded_total", "Events that are handed on undecoded: logs that carry an event's selector and cannot be read by its signature."),
	}
	m.settled = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "watch_settled_total", Help: "Messages that a sink can never take: they are noted and passed over."}, []string{"sink"})
	m.repaired = counter("watch_repaired_total", "Events that an endpoint had not told of when their block was new, and that were found when it could not be replaced any more.")
	m.current = gauge("watch_plan_current", "1 if the fleet follows this process's plan, 0 if it follows another: then this process owns nothing.")
	m.beatAge = prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "relayer_last_heartbeat_age", Help: "Seconds since this process last told the fleet that it lives."}, func() float64 {
		at := m.beat.Load()
		if at == 0 {
			return 0
		}
		return time.Since(time.Unix(0, at)).Seconds()
	})
	return m
}

// headOf tells how old the head of a chain is; age 0: this process does not read it.
func (m *metrics) headOf(chain uint64, age, blockTime time.Duration) {
	label := chainLabel(chain)
	if age == 0 {
		m.headAge.DeleteLabelValues(label)
	} else {
		m.headAge.WithLabelValues(label).Set(age.Seconds())
	}
	if blockTime == 0 {
		m.blockTime.DeleteLabelValues(label)
	} else {
		m.blockTime.WithLabelValues(label).Set(blockTime.Seconds())
	}
}

// Collectors returns the metrics for a registry.
func (s *Service) Collectors() []prometheus.Collector {
	m := s.metrics
	return []prometheus.Collector{
		m.contracts, m.blocks, m.published, m.leader, m.instances, m.registered, m.elections, m.deduplicated, m.lag, m.headAge, m.blockTime, m.doubts, m.calls, m.reorgs, m.sinks, m.failures, m.undecoded, m.settled, m.repaired, m.current, m.beatAge,
	}
}
