package watch

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgressIsToldWhileCatchingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		var p progress
		next := uint64(0)
		for range 12 { // 100 blocks a second, of 1,300
			p.tell(t.Context(), log, 5, next, 1299)
			<-time.After(time.Second)
			next += 100
		}
		if got := strings.Count(out.String(), "catching up"); got != 2 || !strings.Contains(out.String(), "block=500 lag=800 blocksPerSecond=100 eta=8s") {
			t.Errorf("%d lines: %s", got, &out)
		}
		p.tell(t.Context(), log, 5, 1299, 1299)
		if !strings.Contains(out.String(), "caught up") {
			t.Error(&out)
		}
		out.Reset()
		for range 20 { // one block after the other is nothing to tell
			p.tell(t.Context(), log, 5, 1300, 1300)
			<-time.After(time.Second)
		}
		if out.Len() > 0 {
			t.Error(&out)
		}
	})
}
