package outage

import (
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Failing is one of several upstreams, any of which will do, that is asked last or not at all.
type Failing struct {
	Number int    // its place in the settings, from 1
	Why    string // one word
	Since  time.Time
}

// String has no word that an upstream said, and not its address: it goes where anybody may read it.
func (f Failing) String() string {
	return fmt.Sprintf("endpoint %d (%s) for %v", f.Number, f.Why, time.Since(f.Since).Round(time.Second))
}

// Several are the upstreams of one chain.
type Several interface {
	// Endpoints returns how many there are, and which of them fail.
	Endpoints() (n int, failing []Failing)
}

// up has a value for each upstream of each chain.
type up struct {
	desc   *prometheus.Desc
	chains map[string]Several
}

// Up returns a metric of some name: for each upstream of each chain, by the labels chain and endpoint, 0 while it fails, else 1.
func Up(name string, chains map[string]Several) prometheus.Collector {
	const help = "0 while an endpoint fails, lags, or is on another chain or fork, else 1; the log says why."
	return up{prometheus.NewDesc(name, help, []string{"chain", "endpoint"}, nil), chains}
}

func (u up) Describe(to chan<- *prometheus.Desc) { to <- u.desc }

func (u up) Collect(to chan<- prometheus.Metric) {
	for chain, several := range u.chains {
		n, failing := several.Endpoints()
		value := make([]float64, n)
		for i := range value {
			value[i] = 1
		}
		for _, f := range failing {
			value[f.Number-1] = 0
		}
		for i, v := range value {
			to <- prometheus.MustNewConstMetric(u.desc, prometheus.GaugeValue, v, chain, strconv.Itoa(i+1))
		}
	}
}
