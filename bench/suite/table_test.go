package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/must"
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
		"a slow run of three":     {atMost(5), []float64{4, 4, 90}, true},
		"slow":                    {atMost(5), []float64{4, 6, 90}, false},
		"fast enough":             {atLeast(90), []float64{10, 95, 96}, true},
		"too slow":                {atLeast(90), []float64{10, 11, 96}, false},
		"one wrong in one run":    {always(0), []float64{0, 0, 1}, false},
		"none in any run":         {always(0), []float64{0, 0, 0}, true},
		"one run over a limit":    {never(3), []float64{1, 4, 1}, false},
		"every run within limits": {never(3), []float64{1, 3, 1}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.bound.met(spreadOf(tt.values)); got != tt.want {
				t.Errorf("met: %t, want %t", got, tt.want)
			}
		})
	}
}

func TestText(t *testing.T) {
	table := &table{ID: "row", Title: "what it is"}
	table.want("speed", "tx/s", atLeast(1000), "7")
	table.want("never measured", "", atMost(1), "")
	for run := range 3 {
		table.ours("speed", "tx/s", float64(2000+run))
		table.add(true, "speed", "tx/s", float64(2*(2000+run)))
		table.count("rare", 1)
		table.count("frequent", 5)
	}
	table.conclude()
	var text strings.Builder
	must.Do(t, table.write(&text))
	for _, want := range []string{
		"What it is.", "| speed, tx/s ", "| 2001 (2000–2002) ", "| ≥ 1,000 ", "| met ", "| 4002 (4000–4004) ", "| 0.500 ", "- over all runs 15 × frequent\n- over all runs 3 × rare",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
	if strings.Contains(text.String(), missed) {
		t.Errorf("a figure that was not measured missed its target:\n%s", text.String())
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
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	a, b := common.Address{1}, common.Address{2}
	o := outcome{arrivals: []arrival{
		{Sender: a, Nonce: 1, At: at(12), Done: at(20)},
		{Sender: a, Nonce: 0, At: at(0), Done: at(10)},
		{Sender: b, Nonce: 7, At: at(5), Done: at(15)},
		{Sender: a, Nonce: 2, At: at(30), Done: at(40)},
	}}
	if diff := cmp.Diff([]float64{2, 10}, o.handoffs()); diff != "" {
		t.Errorf("hand-offs (-want +got):\n%s", diff)
	}
	span, busy := o.span()
	if span != .04 || busy != .03 {
		t.Errorf("span %v, busy %v, want 0.04 and 0.03", span, busy)
	}
}

// A run replaces the sections of its rows, keeps the others, and keeps the order of the rows.
func TestDocument(t *testing.T) {
	dir := t.TempDir()
	front := filepath.Join(dir, "PERFORMANCE.md")
	must.Do(t, os.WriteFile(front, []byte("What it costs.\n\n"+headlinesBegin+"old\n"+headlinesEnd+"\nThe rest.\n"), 0o600))
	must.Do(t, os.Mkdir(filepath.Join(dir, "internals"), 0o700))
	made := func(id string, value float64, failure string) *table {
		tab := &table{ID: id, Title: "some row", Measured: "2026-01-02, a machine"}
		if failure != "" {
			tab.failure = errors.New(failure)
		}
		tab.want("cost", "µs", atMost(5), "7")
		tab.ours("cost", "µs", value)
		tab.note("A note.")
		tab.conclude()
		return tab
	}
	write := func(tables ...*table) string {
		t.Helper()
		must.Do(t, publish(dir, tables))
		text := must.Get(os.ReadFile(filepath.Join(dir, "internals", "FIGURES.md")))(t)
		return string(text)
	}
	write(made("reads-limit", 1, ""), made("burst", 2, ""))
	text := write(made("burst", 3, ""), made("reads-limit", 9, "it broke"), made("reads-memory", 4, ""))
	for _, want := range []string{
		"Some row. Measured 2026-01-02, a machine.", "| cost, µs | 3 | ≤ 5 | met | 7 | – | – |", "| cost, µs | 1 |", "| cost, µs | 4 |", "- A note.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the document lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "| 2 |") || strings.Contains(text, "| 9 |") {
		t.Errorf("the document has what was replaced, or what is incomplete:\n%s", text)
	}
	if a, b, c := strings.Index(text, "## burst"), strings.Index(text, "## reads-limit"), strings.Index(text, "## reads-memory"); a < 0 || b < a || c < b {
		t.Errorf("the sections are in another order: %d %d %d", a, b, c)
	}
	burst := made("burst", 3, "")
	burst.want("local, executed", "tx", atMost(100), "99")
	burst.ours("local, executed", "tx", 98)
	burst.conclude()
	write(burst)
	page := must.Get(os.ReadFile(front))(t)
	want := "What it costs.\n\n" + headlinesBegin + "|  | Lockstep | TypeScript relay | plainest program that could |\n|---|---|---|---|\n" +
		"| [a burst of 100 from one sender: executed](internals/FIGURES.md#burst) | 98 | 99 | – |\n" + headlinesEnd + "\nThe rest.\n"
	if string(page) != want {
		t.Errorf("the page is\n%s\nwant\n%s", page, want)
	}
}

// Each headline is a figure that the last run measured, and the documents are those of its data.
func TestHeadlines(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"PERFORMANCE.md", "internals/FIGURES.md", "internals/figures.json"} {
		text, err := os.ReadFile(filepath.Join("../../docs", name))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	must.Do(t, publish(dir, nil))
	for _, name := range []string{"PERFORMANCE.md", "internals/FIGURES.md", "internals/figures.json"} {
		want, err1 := os.ReadFile(filepath.Join("../../docs", name))
		got, err2 := os.ReadFile(filepath.Join(dir, name))
		must.Do(t, errors.Join(err1, err2))
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is not what the data file says:\n%s", name, diff)
		}
	}
	page := must.Get(os.ReadFile(filepath.Join(dir, "PERFORMANCE.md")))(t)
	for _, h := range headlines {
		if !strings.Contains(string(page), "| ["+h.says+"]") || strings.Contains(string(page), h.says+"](internals/FIGURES.md#"+h.row+") | – |") {
			t.Errorf("nothing was measured for %q", h.says)
		}
	}
}

func TestAnswers(t *testing.T) {
	const good = `{"result":"0x12a","jsonrpc":"2.0","id":1}`
	for name, tt := range map[string]struct {
		status, body string
		batch        int
		err          string
	}{
		"a result":         {"200 OK", good, 0, ""},
		"a batch":          {"200 OK", "[" + good + "," + good + "]", 2, ""},
		"no batch":         {"200 OK", good, 2, good},
		"null":             {"200 OK", `{"result":null,"id":1}`, 0, "null"},
		"an error":         {"200 OK", `{"error":{"code":-1},"id":1}`, 0, "-1"},
		"an error as told": {"400 Bad Request", good, 0, "status 400"},
		"no JSON":          {"200 OK", "oops", 0, "oops"},
	} {
		t.Run(name, func(t *testing.T) {
			text := "HTTP/1.1 " + tt.status + "\r\nContent-Length: " + strconv.Itoa(len(tt.body)) + "\r\n\r\n" + tt.body
			in := bufio.NewReader(strings.NewReader(text + "rest"))
			err := readCase{batch: tt.batch}.answer(in)
			if tt.err == "" {
				rest, _ := io.ReadAll(in)
				if err != nil || string(rest) != "rest" {
					t.Errorf("%v, then %q", err, rest)
				}
			} else if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%v, want an error with %q", err, tt.err)
			}
		})
	}
}

// A load asks for every index once, and ends with its keys, its time, or an error.
func TestReading(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- echoRole(ctx, in) }()
	at := must.Get(bufio.NewReader(out).ReadString('\n'))(t)
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	counts := make(chan int, 2000)
	c := readCase{requests: 1000, body: func(_ *archive, i int) string {
		counts <- i
		return ask("eth_chainId")
	}}
	done, err := c.run(t.Context(), strings.TrimSpace(at), nil, 8)
	close(counts)
	seen := map[int]bool{}
	for i := range counts {
		seen[i] = true
	}
	if err != nil || done != 1000 || len(seen) != 1000 {
		t.Errorf("%d answers to %d requests: %v", done, len(seen), err)
	}
	c.body, c.batch = chainID.body, 2
	if _, err := c.run(t.Context(), strings.TrimSpace(at), nil, 8); err == nil || !strings.Contains(err.Error(), "status 200") {
		t.Errorf("an answer that is none: %v", err)
	}
}
