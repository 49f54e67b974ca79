package hederachain

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/internal/operator"
)

// The operator is looked at once a minute. The log has a line for each change and no more, and an outage of those who are asked
// mends nothing.
func TestOperatorWatch(t *testing.T) {
	away := errors.New("away")
	id := hedera.ID{Num: 1002}
	right := operator.Finding{ID: id, Key: operator.KeyRight, Balance: 9, BalanceKnown: true}
	wrong := operator.Finding{ID: id, Key: operator.KeyWrong, Balance: 9, BalanceKnown: true}
	poor := operator.Finding{ID: id, Key: operator.KeyRight, BalanceKnown: true}
	unknown := operator.Finding{ID: id, MirrorErr: away, NodeErr: away}
	noKey := operator.Finding{ID: id, MirrorErr: away, Balance: 9, BalanceKnown: true}
	const bad, good = "cannot pay", "can pay again"
	for name, test := range map[string]struct {
		findings []operator.Finding
		said     []string // a part of each line
		trouble  string
		metrics  int
	}{
		"right":                       {[]operator.Finding{right, right}, []string{"has the configured key"}, "", 2},
		"wrong from the start":        {[]operator.Finding{wrong, wrong, wrong}, []string{bad}, "key is not the key", 2},
		"nobody can tell":             {[]operator.Finding{unknown, unknown}, []string{"not known"}, "", 0},
		"known later":                 {[]operator.Finding{unknown, wrong}, []string{"not known", bad}, "key is not the key", 2},
		"another key later":           {[]operator.Finding{right, wrong, right}, []string{"has the configured key", bad, good}, "", 2},
		"nobody answers in between":   {[]operator.Finding{wrong, unknown, noKey}, []string{bad}, "key is not the key", 2},
		"no money, and then some":     {[]operator.Finding{poor, noKey}, []string{bad, good}, "", 2},
		"no money, nobody can answer": {[]operator.Finding{poor, unknown}, []string{bad}, "no balance", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				looks := 0
				w := &operatorWatch{chain: "298", log: slog.New(slog.NewTextHandler(&log, nil)), look: func(context.Context) (operator.Finding, bool) {
					looks++
					return test.findings[min(looks, len(test.findings))-1], true
				}}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- w.run(ctx) }()
				<-time.After(time.Duration(len(test.findings)-1) * operatorEvery)
				synctest.Wait()
				cancel()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				if looks != len(test.findings) {
					t.Errorf("%d looks", looks)
				}
				lines := strings.Split(strings.TrimSpace(log.String()), "\n")
				if len(lines) != len(test.said) {
					t.Fatalf("%q", lines)
				}
				for i, part := range test.said {
					if !strings.Contains(lines[i], part) || !strings.Contains(lines[i], "chain=298 operator=0.0.1002") {
						t.Errorf("%q lacks %q", lines[i], part)
					}
				}
				if got := w.Trouble(); (got == "") != (test.trouble == "") || !strings.Contains(got, test.trouble) {
					t.Errorf("trouble %q", got)
				}
				if got := must.Measure(t, w); len(got) != test.metrics {
					t.Errorf("metrics %v", got)
				}
			})
		})
	}
}
