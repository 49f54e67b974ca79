package console

import (
	"encoding/json"
	"testing"
	"time"
)

// An hour of samples makes a chart of 120 points or fewer, whose rates and times are those between two points.
func TestHistory(t *testing.T) {
	var h history
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range historyLength + 100 {
		n := float64(i)
		// Ten calls a second: half take up to 5 ms, and the rest up to 10.
		h.add(sample{
			at: start.Add(time.Duration(i) * historyEvery), calls: 20 * n, waiting: n, methods: spread{bounds: []float64{5, 10}, counts: []float64{10 * n, 20 * n}, all: 20 * n},
			byMethod: []methodUse{{"eth_call", 18, 3, n}, {"eth_chainId", 2, 1, 1}},
		})
	}
	if len(h.samples) != historyLength {
		t.Errorf("%d samples, want %d", len(h.samples), historyLength)
	}
	for span, want := range map[time.Duration]int{time.Minute: 30, 15 * time.Minute: 112, time.Hour: 120} {
		points, methods := h.points(span)
		if len(points) != want && len(points) != want-1 || len(points) > maxPoints {
			t.Errorf("%v: %d points, want %d", span, len(points), want)
			continue
		}
		last := points[len(points)-1]
		if last.Waiting != float64(historyLength+99) {
			t.Errorf("%v ends with the sample %v", span, last.Waiting)
		}
		if half, most := last.Methods[0], last.Methods[1]; last.Calls != 10 || half == nil || *half != 5 || most == nil || *most != 9.9 || last.Mirror[0] != nil {
			text, _ := json.Marshal(last)
			t.Errorf("%v: %s", span, text)
		}
		if len(methods) != 2 || methods[0].Name != "eth_call" || len(methods[0].Calls) != len(points) || methods[0].Calls[len(points)-1] != 9 ||
			*methods[0].Slow[len(points)-1] != float64(historyLength+99) {
			t.Errorf("%v: %d methods, the first %+v", span, len(methods), methods[0])
		}
	}
}

// A method is charted with what it did since the sample before, and not at all if it did nothing.
func TestMethodsOfAStep(t *testing.T) {
	before := map[string]*spread{"eth_call": {bounds: []float64{5, 10}, counts: []float64{100, 100}, all: 100}, "eth_chainId": {bounds: []float64{5}, counts: []float64{7}, all: 7}}
	now := map[string]*spread{"eth_call": {bounds: []float64{5, 10}, counts: []float64{100, 104}, all: 104}, "eth_chainId": before["eth_chainId"]}
	if got := used(before, now); len(got) != 1 || got[0] != (methodUse{"eth_call", 4, 7.5, 9.95}) {
		t.Errorf("%+v", got)
	}
}
