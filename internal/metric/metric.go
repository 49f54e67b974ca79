// Package metric makes the metrics of a component and keeps a list of them, so that none is forgotten when they are registered.
package metric

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Set is the metrics of a component, registered nowhere. The zero value has none.
type Set struct{ all []prometheus.Collector }

// Collectors returns everything there is to register.
func (s *Set) Collectors() []prometheus.Collector { return slices.Clip(s.all) }

func add[C prometheus.Collector](s *Set, c C) C {
	s.all = append(s.all, c)
	return c
}

// Counter adds a counter.
func (s *Set) Counter(name, help string) prometheus.Counter {
	return add(s, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
}

// Counters adds a counter for each combination of the labels' values.
func (s *Set) Counters(name, help string, labels ...string) *prometheus.CounterVec {
	return add(s, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
}

// Gauge adds a gauge.
func (s *Set) Gauge(name, help string) prometheus.Gauge {
	return add(s, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
}

// Gauges adds a gauge for each combination of the labels' values.
func (s *Set) Gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return add(s, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels))
}

// Asked adds a gauge that is asked for its value whenever somebody reads it.
func (s *Set) Asked(name, help string, value func() float64) prometheus.GaugeFunc {
	return add(s, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// Histogram adds a histogram.
func (s *Set) Histogram(name, help string, buckets []float64) prometheus.Histogram {
	return add(s, prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}))
}

// Histograms adds a histogram for each combination of the labels' values.
func (s *Set) Histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return add(s, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels))
}
