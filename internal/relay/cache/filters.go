package cache

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"lockstep/internal/redisx"
)

//go:embed lua/filters.lua
var filtersHead string

//go:embed lua/filter_add.lua
var filterAdd string

//go:embed lua/filter_use.lua
var filterUse string

//go:embed lua/filter_advance.lua
var filterAdvance string

//go:embed lua/filter_delete.lua
var filterDelete string

// Filters keeps the filters of clients in Redis, for all relays of a fleet. A filter is
// a hash of its description, its cursor and who moved that last; an index by the time
// they expire bounds their number, and the sum of their lengths their bytes. Whose they
// are decides which one makes room. All are in one slot of a cluster.
//
//	{lockstep:filters}              sorted set: id by the time it expires, ms
//	{lockstep:filters}:<id>         hash: filter, next, by; expires
//	{lockstep:filters}:lengths      sorted set: id by the length of the filter in bytes
//	{lockstep:filters}:bytes        the sum of the lengths
//	{lockstep:filters}:clients      hash: client by id
//	{lockstep:filters}:counts       sorted set: client by the number of its filters
//	{lockstep:filters}:of:<client>  sorted set: id by the time it expires, ms; of one client
//
// Unlike the values of this package, filters cannot be had from elsewhere: what fails is
// an error. A Redis that is short of memory takes no new one.
type Filters struct {
	client redis.UniversalClient
	bounds FilterBounds

	add, use, advance, forget *redis.Script
}

// FilterBounds are what the filters of a fleet may cost.
type FilterBounds struct {
	Count   int           // when there are more, the one goes that its client has not used for longest, of the client that has most
	Bytes   int           // when they are longer together, the longest goes
	TTL     time.Duration // how long one lives after it was last used
	Timeout time.Duration // of a look into Redis
}

// NewFilters makes a store. The client stays the caller's.
func NewFilters(client redis.UniversalClient, bounds FilterBounds) *Filters {
	script := func(body string) *redis.Script {
		return redis.NewScript(redisx.SpareLua + filtersHead + body)
	}
	return &Filters{
		client: client, bounds: bounds,
		add: script(filterAdd), use: script(filterUse), forget: script(filterDelete), advance: redis.NewScript(filterAdvance),
	}
}

const filterIndex = "{lockstep:filters}"

func filterKey(id string) string { return filterIndex + ":" + id }

func filterKeys(id string) []string {
	return []string{filterIndex, filterKey(id), filterIndex + ":lengths", filterIndex + ":bytes", filterIndex + ":clients", filterIndex + ":counts"}
}

// Add keeps a filter of a client, with a cursor.
func (f *Filters) Add(ctx context.Context, client, id string, filter []byte, next uint64) error {
	ctx, cancel := context.WithTimeout(ctx, f.bounds.Timeout)
	defer cancel()
	err := f.add.Run(ctx, f.client, filterKeys(id), id, f.bounds.TTL.Milliseconds(), f.bounds.Count, filter, strconv.FormatUint(next, 10), f.bounds.Bytes, client).Err()
	if errors.Is(err, redis.Nil) { // the script returns nothing
		return nil
	}
	return err
}

// Use returns a filter and its cursor, and lets it live on. ok is false if there is no
// such filter.
func (f *Filters) Use(ctx context.Context, id string) (filter []byte, next uint64, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.bounds.Timeout)
	defer cancel()
	found, err := f.use.Run(ctx, f.client, filterKeys(id), id, f.bounds.TTL.Milliseconds()).StringSlice()
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
		timed, cancel := context.WithTimeout(ctx, f.bounds.Timeout)
		moved, err = f.advance.Run(timed, f.client, []string{filterKey(id)}, strconv.FormatUint(from, 10), strconv.FormatUint(to, 10), poll).Bool()
		cancel()
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return moved, err
}

// Delete forgets a filter; it tells whether there was one.
func (f *Filters) Delete(ctx context.Context, id string) (existed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.bounds.Timeout)
	defer cancel()
	return f.forget.Run(ctx, f.client, filterKeys(id), id).Bool()
}
