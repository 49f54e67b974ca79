package mirror

import (
	"context"
	"errors"
	"strings"
	"testing"

	"lockstep/internal/hedera"
	"lockstep/internal/relay/capacity"
)

// TestWhatWasReadIsHeld: values that were decoded count while their request lasts, those from
// the memory of the process, too, but not what a look in vain read.
func TestWhatWasReadIsHeld(t *testing.T) {
	const bytes, logs = 100_000, 3
	long := strings.Replace(logJSON("1", "1"), `"0x0102"`, `"0x`+strings.Repeat("ab", bytes)+`"`, 1)
	incomplete := strings.Replace(long, `"transaction_index":1`, `"transaction_index":null`, 1)
	if long == incomplete || len(long) < 2*bytes {
		t.Fatalf("the log is not as it should be: %.200s", long)
	}
	page := func(item string) string {
		return `{"logs":[` + strings.TrimSuffix(strings.Repeat(item+",", logs), ",") + `],"links":{"next":null}}`
	}
	n := newNode(t)
	client := connect(t, n.URL, func(c *Config) { c.ImmatureAttempts, c.CacheBytes = 3, 64<<20 })
	memory := capacity.NewMemory(capacity.Config{Limit: 512, Requests: 8, Client: 8, Request: 8})
	request := func() (context.Context, *capacity.Holding) {
		holding := memory.Open("192.0.2.1")
		return context.WithValue(t.Context(), capacity.Key{}, holding), holding
	}
	block := &Block{Number: 17, Period: Period{From: hedera.Timestamp{Seconds: 1}, To: hedera.Timestamp{Seconds: 2}}}
	path := "contracts/results/logs?timestamp=gte:1.000000000&timestamp=lte:2.000000000&limit=100&order=desc"
	for _, c := range []struct {
		name, body string
		held       int64
		err        error
	}{
		{"of records on their way", page(incomplete), 0, ErrImmature},
		{"from the mirror node", page(long), logs * bytes, nil},
		{"from memory", "", logs * bytes, nil},
	} {
		n.set(path, c.body)
		ctx, holding := request()
		got, err := client.BlockLogs(ctx, block, LogsQuery{})
		if !errors.Is(err, c.err) || err == nil && len(got) != logs {
			t.Fatalf("%s: %d logs, %v; asked %q", c.name, len(got), err, n.requests())
		}
		if held := holding.Held(); held < c.held || held > c.held+c.held/4 {
			t.Errorf("%s: %d bytes are held, want %d and a little more", c.name, held, c.held)
		}
		holding.Close()
	}
}
