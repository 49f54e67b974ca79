package must

import (
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are values by the metric's name and the values of its labels, such as "reads_total cache hit". Of a histogram it is the count.
type Metrics map[string]float64

// Measure reads what collectors have counted, as a scraper does.
func Measure(t testing.TB, collectors ...prometheus.Collector) Metrics {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collectors...)
	all := Metrics{}
	for _, family := range Get(registry.Gather())(t) {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			all[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

// Of adds up the values of one metric.
func (m Metrics) Of(metric string) (sum float64) {
	for name, value := range m {
		if first, _, _ := strings.Cut(name, " "); first == metric {
			sum += value
		}
	}
	return sum
}

// Scrape reads the text of /metrics as Prometheus does: the value of each series, by its name with labels. Of histograms it keeps counts and
// sums.
func Scrape(t testing.TB, page string) map[string]float64 {
	t.Helper()
	series := map[string]float64{}
	for line := range strings.SplitSeq(page, "\n") {
		end := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || end < 0 || strings.Contains(line, "_bucket{") {
			continue
		}
		series[line[:end]] = Get(strconv.ParseFloat(line[end+1:], 64))(t)
	}
	return series
}
