package console

import (
	"context"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"lockstep/lock"
)

// State is what the page shows of the relay.
type State struct {
	Version   string          `json:"version"`
	ChainID   uint64          `json:"chainId"`
	Dev       bool            `json:"dev"`     // the network is one for development, and /ui/mirror/ is served
	Records   bool            `json:"records"` // lifecycle records are kept
	Ordering  bool            `json:"ordering"`
	Ordered   string          `json:"ordered"` // which senders, while Ordering is on: "10 % of senders"
	Window    int64           `json:"window"`  // ms
	Lanes     []lock.LaneInfo `json:"lanes"`   // maxLanes of them at most
	AllLanes  int             `json:"allLanes"`
	Upstreams []Upstream      `json:"upstreams"`
	Methods   []Method        `json:"methods"`
	Costs     Costs           `json:"costs"`
}

// Upstream is one thing that the relay depends on.
type Upstream struct {
	Kind  string     `json:"kind"` // mirror, nodes, redis, lock_redis, chain
	Name  string     `json:"name"`
	Up    bool       `json:"up"`
	Since *time.Time `json:"since,omitempty"` // of a failure, if known
	Cause string     `json:"cause,omitempty"`
	Note  string     `json:"note,omitempty"` // what else there is to say: the head of a mirror node
}

// Method is what became of a method's calls since the relay started. The page makes rates of
// the differences between two states.
type Method struct {
	Name    string    `json:"name"`
	Calls   uint64    `json:"calls"`
	Failed  uint64    `json:"failed"`  // answered with an error
	Millis  float64   `json:"millis"`  // of all calls together
	Buckets []uint64  `json:"buckets"` // calls that took as long as Bounds says, or less
	Bounds  []float64 `json:"bounds"`  // ms
}

// Costs are in tinybars; what is not known is nil.
type Costs struct {
	Balance   *float64 `json:"balance,omitempty"`   // of the operator
	Remaining *float64 `json:"remaining,omitempty"` // of the budget of this window
	Limit     int64    `json:"limit"`               // of the budget; 0: there is none
}

// maxLanes bounds the lanes in a state, for a relay may have 100,000 senders.
const maxLanes = 500

// busiest are the lanes in which most transactions wait, in order of address.
func busiest(lanes []lock.LaneInfo) []lock.LaneInfo {
	if len(lanes) <= maxLanes {
		return lanes
	}
	slices.SortStableFunc(lanes, func(a, b lock.LaneInfo) int { return b.Waiting - a.Waiting })
	lanes = lanes[:maxLanes]
	slices.SortFunc(lanes, func(a, b lock.LaneInfo) int { return a.Sender.Cmp(b.Sender) })
	return lanes
}

func (c *Console) state(ctx context.Context) State {
	d := c.deps
	upstreams := d.Upstreams(ctx)
	families, _ := d.Metrics.Gather() // what was gathered beside an error is good
	lanes := c.lanes()                // last: an upstream that is out takes seconds to say so, and lanes move meanwhile
	s := State{
		Version: d.Version, ChainID: d.ChainID, Dev: d.Mirror != nil, Records: d.Record != nil,
		Ordering: d.Locks.On(), Ordered: d.Locks.Ordered(), Window: d.Window.Milliseconds(), AllLanes: len(lanes), Lanes: busiest(lanes), Upstreams: upstreams, Methods: []Method{},
	}
	byName := map[string]*Method{}
	for _, family := range families {
		switch family.GetName() {
		case "rpc_relay_method_result", "rpc_relay_method_response", "rpc_websocket_message_duration_miliseconds":
			durations(byName, family)
		case "lockstep_rpc_errors_total":
			failures(byName, family)
		case "rpc_relay_operator_balance":
			s.Costs.Balance = amount(family)
		case "rpc_relay_hbar_rate_remaining":
			s.Costs.Remaining = amount(family)
		}
	}
	s.Costs.Limit = d.Budget
	delete(byName, "batch_request") // its calls are counted one by one
	for _, m := range byName {
		s.Methods = append(s.Methods, *m)
	}
	slices.SortFunc(s.Methods, func(a, b Method) int { return strings.Compare(a.Name, b.Name) })
	return s
}

func method(byName map[string]*Method, m *dto.Metric) *Method {
	name := label(m, "method")
	if byName[name] == nil {
		byName[name] = &Method{Name: name, Buckets: []uint64{}, Bounds: []float64{}}
	}
	return byName[name]
}

// durations adds the histograms of a family, which all have the same bounds.
func durations(byName map[string]*Method, family *dto.MetricFamily) {
	for _, metric := range family.GetMetric() {
		m, h := method(byName, metric), metric.GetHistogram()
		m.Calls += h.GetSampleCount()
		m.Millis += h.GetSampleSum()
		for i, bucket := range h.GetBucket() {
			if i == len(m.Buckets) {
				m.Buckets, m.Bounds = append(m.Buckets, 0), append(m.Bounds, bucket.GetUpperBound())
			}
			m.Buckets[i] += bucket.GetCumulativeCount()
		}
	}
}

func failures(byName map[string]*Method, family *dto.MetricFamily) {
	for _, metric := range family.GetMetric() {
		method(byName, metric).Failed += uint64(metric.GetCounter().GetValue())
	}
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// amount is the value of a gauge's only series.
func amount(family *dto.MetricFamily) *float64 {
	for _, m := range family.GetMetric() {
		v := m.GetGauge().GetValue()
		return &v
	}
	return nil
}
