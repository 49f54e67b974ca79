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
		watches := func() map[string]uint64 { return map[string]uint64{"w": next, "ahead": 1290} }
		for range 12 { // 100 blocks a second, of 1,300
			p.count("w", 30)
			p.logNow(t.Context(), log, 5, next, 1299, watches)
			<-time.After(time.Second)
			next += 100
		}
		if got := strings.Count(out.String(), "catching up"); got != 2 || !strings.Contains(out.String(), "watch=w block=500 lag=800 blocksPerSecond=100 eventsPerSecond=30 eta=8s") {
			t.Errorf("%d lines: %s", got, &out)
		}
		p.logNow(t.Context(), log, 5, 1299, 1299, watches)
		if !strings.Contains(out.String(), "caught up") {
			t.Error(&out)
		}
		out.Reset()
		var s speeds
		for i := range 200 { // 10 blocks and 3 events a second, of which somebody asks
			is := stand{time.Now(), uint64(10 * i), int64(3 * i)}
			if blocks, events, left := is.speed(s.of("w", is), 100); i > 1 && (blocks != 10 || events != 3 || left != 10*time.Second) || i == 0 && blocks != 0 {
				t.Errorf("%d: %v blocks, %v events, %v", i, blocks, events, left)
			}
			<-time.After(time.Second)
		}
		if n := len(s.all["w"]); n > 61 {
			t.Errorf("%d stands are kept", n)
		}
		for range 20 { // one block after the other is nothing to tell
			p.logNow(t.Context(), log, 5, 1300, 1300, watches)
			<-time.After(time.Second)
		}
		if out.Len() > 0 {
			t.Error(&out)
		}
	})
}
