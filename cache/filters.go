package cache

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

//go:embed lua/filter_add.lua
var filterAdd string

//go:embed lua/filter_use.lua
var filterUse string

//go:embed lua/filter_advance.lua
var filterAdvance string

// Filters keeps the filters of clients in Redis, for all relays of a fleet. A filter is
// a hash of its description, its cursor and who moved that last; an index by the time
// they expire bounds their number. All are in one slot of a cluster.
//
//	{lockstep:filters}        sorted set: id by the time it expires, ms
//	{lockstep:filters}:<id>   hash: filter, next, by; expires
//
// Unlike the values of this package, filters cannot be had from elsewhere: what fails is
// an error.
type Filters struct {
	client  redis.UniversalClient
	ttl     time.Duration
	most    int
	timeout time.Duration

	add, use, advance *redis.Script
}

// NewFilters makes a store of at most so many filters, each of which lives for a time
// after it was last used. A look into Redis takes at most the timeout. The client stays
// the caller's.
func NewFilters(client redis.UniversalClient, most int, ttl, timeout time.Duration) *Filters {
	return &Filters{
		client: client, ttl: ttl, most: most, timeout: timeout,
		add: redis.NewScript(filterAdd), use: redis.NewScript(filterUse), advance: redis.NewScript(filterAdvance),
	}
}

const filterIndex = "{lockstep:filters}"

func filterKeys(id string) []string { return []string{filterIndex, filterIndex + ":" + id} }

// Add keeps a filter, with a cursor.
func (f *Filters) Add(ctx context.Context, id string, filter []byte, next uint64) error {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	err := f.add.Run(ctx, f.client, filterKeys(id), id, f.ttl.Milliseconds(), f.most, filter, strconv.FormatUint(next, 10)).Err()
	if errors.Is(err, redis.Nil) { // the script returns nothing
		return nil
	}
	return err
}

// Use returns a filter and its cursor, and lets it live on. ok is false if there is no
// such filter.
func (f *Filters) Use(ctx context.Context, id string) (filter []byte, next uint64, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	found, err := f.use.Run(ctx, f.client, filterKeys(id), id, f.ttl.Milliseconds()).StringSlice()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, 0, false, nil
	case err != nil:
		return nil, 0, false, err
	case len(found) != 2:
		return nil, 0, false, nil
	}
	next, err = strconv.ParseUint(found[1], 10, 64)
	return []byte(found[0]), next, err == nil, err
}

// Advance moves a filter's cursor. It is false if another poll has been faster, or the
// filter is gone. When Redis does not answer it is tried again, so that a cursor that
// was moved is not taken for one that was not.
func (f *Filters) Advance(ctx context.Context, id string, from, to uint64) (moved bool, err error) {
	const attempts = 3
	poll := uuid.NewString()
	for range attempts {
		timed, cancel := context.WithTimeout(ctx, f.timeout)
		moved, err = f.advance.Run(timed, f.client, filterKeys(id)[1:], strconv.FormatUint(from, 10), strconv.FormatUint(to, 10), poll).Bool()
		cancel()
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return moved, err
}

// Delete forgets a filter; it tells whether there was one.
func (f *Filters) Delete(ctx context.Context, id string) (existed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	var deleted *redis.IntCmd
	_, err = f.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.ZRem(ctx, filterIndex, id)
		deleted = p.Del(ctx, filterKeys(id)[1])
		return nil
	})
	return err == nil && deleted.Val() > 0, err
}
