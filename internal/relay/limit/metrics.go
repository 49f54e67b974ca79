package limit

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics belongs to one Budget. The names are those of the TypeScript relay. Sums are as
// this process knows them: over Redis, as it last saw them.
type metrics struct {
	refused       *prometheus.CounterVec
	redisFailures prometheus.Counter
	sums          *sumCollector
}

func newMetrics(b *Budget) *metrics {
	m := &metrics{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rpc_relay_hbar_rate_limit", Help: "Calls refused because a budget had no room for what they would cost.",
		}, []string{"mode", "methodName"}),
		redisFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lockstep_limit_redis_errors_total", Help: "Redis calls of the budget that failed; each process then counts for itself for some time.",
		}),
		sums: &sumCollector{
			budget:    b,
			total:     prometheus.NewDesc("rpc_relay_hbar_rate_total_limit", "Tinybars that may be spent per window.", nil, nil),
			remaining: prometheus.NewDesc("rpc_relay_hbar_rate_remaining", "Tinybars that may still be spent in this window.", nil, nil),
			plans:     map[tier]*prometheus.Desc{}, average: map[tier]*prometheus.Desc{},
		},
	}
	for _, t := range tiers {
		name := strings.ToLower(string(t))
		m.sums.plans[t] = prometheus.NewDesc("unique_spending_plans_counter_"+name, "Plans of tier "+string(t)+" with spending in this window.", nil, nil)
		m.sums.average[t] = prometheus.NewDesc("average_spending_plan_amount_spent_gauge_"+name, "Tinybars spent in this window by plans of tier "+string(t)+", on average.", nil, nil)
	}
	return m
}

// Collectors returns the metrics for registration.
func (b *Budget) Collectors() []prometheus.Collector {
	return []prometheus.Collector{b.metrics.refused, b.metrics.redisFailures, b.metrics.sums}
}

var tiers = [...]tier{tierBasic, tierExtended, tierPrivileged, tierOperator}

// sumCollector reads all sums at once.
type sumCollector struct {
	budget           *Budget
	total, remaining *prometheus.Desc
	plans, average   map[tier]*prometheus.Desc
}

// Describe implements prometheus.Collector.
func (s *sumCollector) Describe(out chan<- *prometheus.Desc) {
	out <- s.total
	out <- s.remaining
	for _, t := range tiers {
		out <- s.plans[t]
		out <- s.average[t]
	}
}

// Collect implements prometheus.Collector.
func (s *sumCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value int64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value))
	}
	plans, spent := s.budget.perTier()
	total := int64(s.budget.cfg.Total)
	gauge(s.total, total)
	gauge(s.remaining, max(total-spent[tierOperator], 0))
	for _, t := range tiers {
		gauge(s.plans[t], plans[t])
		gauge(s.average[t], spent[t]/max(plans[t], 1))
	}
}

// perTier counts, by tier, the plans that have spent something and what they spent. A
// sender without a plan counts as one of tier BASIC; the total is the one plan of tier
// OPERATOR.
func (b *Budget) perTier() (plans, spent map[tier]int64) {
	plans, spent = map[tier]int64{}, map[tier]int64{}
	b.ledger.each(windowAt(time.Now(), b.cfg.Window.Duration()), func(name string, amount int64) {
		t := tierBasic
		switch id, planned := strings.CutPrefix(name, bookPlan); {
		case name == bookTotal:
			t = tierOperator
		case planned && b.plans.tiers[id] == tierOperator:
			return // part of the total
		case planned:
			t = b.plans.tiers[id]
		case !strings.HasPrefix(name, bookAddress):
			return
		}
		plans[t]++
		spent[t] += amount
	})
	return plans, spent
}
