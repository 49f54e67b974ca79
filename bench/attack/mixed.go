package main

import (
	"context"
	"math/rand/v2"
	"time"
)

// mixed has each client do one thing after the other of all that is expensive, in an order of
// its own, so that any of them come together.
func mixed() func(ctx context.Context, c *client) {
	kinds := []func(ctx context.Context, c *client){
		repeat(batch(100, simulateCall(7, returnsMegabyte))),
		repeat(batch(100, simulateCall(3, callsItself))),
		repeat(batch(100, simulateCall(3, loops))),
		repeat(batch(20, traceCall(loops))),
		repeat(batch(100, allLogs)),
		repeat(escapedKeys()),
		repeat(longNumber()),
		repeat(simulateWith(words(12_000, longWord))),
		unfinishedBodies,
		websocketFlood,
	}
	return func(ctx context.Context, c *client) {
		random := rand.New(rand.NewPCG(1, uint64(c.number)))
		for ctx.Err() == nil {
			for _, kind := range random.Perm(len(kinds)) {
				turn, end := context.WithTimeout(ctx, time.Second+time.Duration(random.Int64N(int64(time.Second))))
				kinds[kind](turn, c)
				end()
			}
		}
	}
}
