package watch

import (
	"context"
	"log/slog"
	"time"
)

const (
	// behind is how many blocks a process is behind the head when it is catching up and not just reading.
	behind = 64
	// progressEvery is how often it tells then how far it is.
	progressEvery = 5 * time.Second
)

// progress tells people how far a process is while it catches up.
type progress struct {
	at    time.Time
	block uint64
	told  bool
}

// tell is called with the next block to read and the head.
func (p *progress) tell(ctx context.Context, log *slog.Logger, chain, next, head uint64) {
	lag := head + 1 - min(next, head+1)
	now := time.Now()
	switch {
	case lag < behind && p.told:
		log.InfoContext(ctx, "caught up", "chain", chain, "block", head)
		*p = progress{}
	case lag < behind:
		*p = progress{}
	case p.at.IsZero() || next < p.block:
		*p = progress{at: now, block: next, told: p.told}
	case now.Sub(p.at) >= progressEvery:
		rate := float64(next-p.block) / now.Sub(p.at).Seconds()
		fields := []any{"chain", chain, "block", next, "lag", lag, "blocksPerSecond", int64(rate)}
		if rate > 0 {
			fields = append(fields, "eta", time.Duration(float64(lag)/rate*float64(time.Second)).Round(time.Second))
		}
		log.InfoContext(ctx, "catching up", fields...)
		*p = progress{at: now, block: next, told: true}
	}
}
