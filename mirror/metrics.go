package mirror

import (
	"github.com/prometheus/client_golang/prometheus"
)

func newUnreadable() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{
		Name: "rpc_relay_mirror_unreadable_records_total",
		Help: "Records of the shared cache that were ignored because they were damaged or of another version.",
	})
}

// counted is what metrics read of a cache.
type counted interface {
	size() int
	calls() (gets, puts uint64)
}

// caches are the caches of what cannot change, by kind.
func (c *Client) caches() map[string]counted {
	return map[string]counted{"block": c.blocks, "result": c.results, "blockResults": c.lists, "blockLogs": c.logs, "alias": c.aliases}
}

// Collectors returns the client's metrics, for registration. Two have the names and labels that
// the TypeScript relay gives them.
func (c *Client) Collectors() []prometheus.Collector {
	all := append(c.fetch.Collectors(), c.unreadable, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rpc_relay_cache", Help: "Entries of all caches in this process.",
	}, func() float64 {
		sum := 0
		for _, k := range c.caches() {
			sum += k.size()
		}
		return float64(sum)
	}))
	for kind, k := range c.caches() {
		calls := func(method string, value func() uint64) prometheus.Collector {
			return prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name:        "rpc_cache_service_methods_counter",
				Help:        "Calls of the caches, by the kind of the entries (callingMethod), where (cacheType: lru, redis) and what was done (method: get, set).",
				ConstLabels: prometheus.Labels{"callingMethod": kind, "cacheType": "lru", "method": method},
			}, func() float64 { return float64(value()) })
		}
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "rpc_relay_mirror_cache_entries",
			Help:        "Entries of the caches of what cannot change, by kind.",
			ConstLabels: prometheus.Labels{"kind": kind},
		}, func() float64 { return float64(k.size()) }),
			calls("get", func() uint64 { gets, _ := k.calls(); return gets }),
			calls("set", func() uint64 { _, puts := k.calls(); return puts }))
	}
	return all
}
