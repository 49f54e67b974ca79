package mirror

import (
	"context"

	"golang.org/x/sync/errgroup"

	"lockstep/internal/hedera"
)

// sliced reads what lies in a block's time. A large block is cut into parts of equal length that are read at the
// same time, because the latencies of pages in sequence would add up.
func sliced[T any](ctx context.Context, c *Client, block *Block, read func(context.Context, Period) ([]T, error)) ([]T, error) {
	slices := cut(block.Period, (block.Count+uint64(c.config.SliceSize)-1)/uint64(c.config.SliceSize))
	if len(slices) == 1 {
		return read(ctx, slices[0])
	}
	parts := make([][]T, len(slices))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.config.SliceConcurrency)
	for i, slice := range slices {
		group.Go(func() (err error) {
			parts[i], err = read(ctx, slice)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	total := 0
	for _, part := range parts {
		total += len(part)
	}
	all := make([]T, 0, total)
	for _, part := range parts {
		all = append(all, part...)
	}
	return all, nil
}

// cut divides a period into n parts that do not overlap and leave no gap; fewer if
// it is shorter than n nanoseconds.
func cut(p Period, n uint64) []Period {
	const maxParts = 1000
	from, to := p.From.UnixNano(), p.To.UnixNano()
	n = min(n, maxParts, uint64(max(to-from, 1)))
	if n < 2 || to <= from {
		return []Period{p}
	}
	step := (to - from) / int64(n)
	parts := make([]Period, n)
	for i := range parts {
		parts[i].From = hedera.FromNanos(from + int64(i)*step)
		parts[i].To = hedera.FromNanos(from + int64(i+1)*step - 1)
	}
	parts[n-1].To = p.To
	return parts
}
