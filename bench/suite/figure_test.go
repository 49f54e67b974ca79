package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"
)

func TestRatiosGoRunByRun(t *testing.T) {
	tests := map[string]struct{ ours, naive, want []float64 }{
		"pairs":            {[]float64{2, 9}, []float64{1, 3}, []float64{2, 3}},
		"nothing to":       {[]float64{2, 9}, nil, nil},
		"other counts":     {[]float64{2, 4, 6}, []float64{8}, []float64{.5}},
		"division by zero": {[]float64{2, 9}, []float64{0, 3}, []float64{3}},
		"only zero":        {[]float64{2, 9, 4}, []float64{0}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, (&figure{ours: tt.ours, naive: tt.naive}).ratios()); diff != "" {
				t.Errorf("ratios (-want +got):\n%s", diff)
			}
		})
	}
}

// Times are judged by the median, counts by the worst run.
func TestTargets(t *testing.T) {
	tests := map[string]struct {
		bound  *bound
		values []float64
		want   bool
	}{
		"a slow run of three":     {atMost(5, "5"), []float64{4, 4, 90}, true},
		"slow":                    {atMost(5, "5"), []float64{4, 6, 90}, false},
		"fast enough":             {atLeast(90, "90"), []float64{10, 95, 96}, true},
		"too slow":                {atLeast(90, "90"), []float64{10, 11, 96}, false},
		"one wrong in one run":    {always(0, "0"), []float64{0, 0, 1}, false},
		"none in any run":         {always(0, "0"), []float64{0, 0, 0}, true},
		"one run over a limit":    {never(3, "3"), []float64{1, 4, 1}, false},
		"every run within limits": {never(3, "3"), []float64{1, 3, 1}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.bound.met(tt.values); got != tt.want {
				t.Errorf("met: %t, want %t", got, tt.want)
			}
		})
	}
}

func TestTextAndJSON(t *testing.T) {
	table := &table{ID: "row", Title: "what it is"}
	table.want("speed", "tx/s", atLeast(10, "10"), "7")
	table.want("never measured", "", atMost(1, "1"), "")
	for run := range 3 {
		table.ours("speed", "tx/s", float64(20+run))
		table.naive("speed", "tx/s", float64(2*(20+run)))
	}
	table.note("a note")
	var text strings.Builder
	if err := table.write(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"row: what it is", "speed, tx/s", "21 (20–22)", "≥ 10", "met", "42 (40–44)", "0.5", "a note"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), "MISSED") {
		t.Errorf("a figure that was not measured missed its target:\n%s", text.String())
	}
	written, err := json.Marshal(table)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Figures []figureJSON `json:"figures"`
	}
	if err := json.Unmarshal(written, &got); err != nil {
		t.Fatal(err)
	}
	met := true
	want := figureJSON{
		Name: "speed", Unit: "tx/s", Target: "≥ 10", Met: &met, Peer: "7",
		Ours: &spread{21, 20, 22, 3}, Naive: &spread{42, 40, 44, 3}, Ratio: &spread{.5, .5, .5, 3},
	}
	if diff := cmp.Diff(want, got.Figures[0]); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}

func TestChoose(t *testing.T) {
	if list, err := choose(""); err != nil || len(list) != len(rows()) {
		t.Errorf("nothing chosen: %d rows, %v", len(list), err)
	}
	list, err := choose("fifty, burst")
	if err != nil || len(list) != 2 || list[0].id != "fifty" || list[1].id != "burst" {
		t.Errorf("two chosen: %v, %v", list, err)
	}
	if _, err := choose("speed"); err == nil {
		t.Error("a row that does not exist was chosen")
	}
}

// What the node saw gives the gaps between a sender's submissions, and how long the node
// had one at all.
func TestArrivals(t *testing.T) {
	const ms = 1e6
	a, b := common.Address{1}, common.Address{2}
	o := outcome{arrivals: []arrival{
		{Sender: a, Nonce: 1, At: 12 * ms, Done: 20 * ms},
		{Sender: a, Nonce: 0, At: 0, Done: 10 * ms},
		{Sender: b, Nonce: 7, At: 5 * ms, Done: 15 * ms},
		{Sender: a, Nonce: 2, At: 30 * ms, Done: 40 * ms},
	}}
	if diff := cmp.Diff([]float64{2, 10}, o.handoffs()); diff != "" {
		t.Errorf("hand-offs (-want +got):\n%s", diff)
	}
	span, busy := o.span()
	if span != .04 || busy != .03 {
		t.Errorf("span %v, busy %v, want 0.04 and 0.03", span, busy)
	}
}

func TestEventsBecomeNotes(t *testing.T) {
	table := new(table)
	for range 3 {
		table.count("rare", 1)
		table.count("frequent", 5)
	}
	table.conclude()
	want := []string{"over all runs 15 × frequent", "over all runs 3 × rare"}
	if diff := cmp.Diff(want, table.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}
