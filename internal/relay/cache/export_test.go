package cache

import dto "github.com/prometheus/client_model/go"

// Count lets tests see how often an operation ended so.
func (r *Redis) Count(operation, result string) float64 {
	var metric dto.Metric
	if err := r.count.WithLabelValues(operation, result).Write(&metric); err != nil {
		panic(err)
	}
	return metric.GetCounter().GetValue()
}
