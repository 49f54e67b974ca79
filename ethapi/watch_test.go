package ethapi

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/must"
)

func TestWatchTellsEveryBlockOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := newFakeChain(3)
		l, conn := newLive(t, chain), newFakeConn()
		heads, logs := l.subscribe(conn, `["newHeads"]`), l.subscribe(conn, `["logs",{}]`)
		for range 40 {
			chain.mine(1)
			<-time.After(pollInterval / 3)
		}
		chain.mine(250) // more than one answer of the mirror node holds
		<-time.After(2 * pollInterval)
		synctest.Wait()
		l.told("heads", conn, heads, span(3, 292)...)
		l.told("logs", conn, logs, span(3, 292)...)
		if got := number(t, l.metrics.newest); got != 292 {
			t.Errorf("newest block told: got %v, want 292", got)
		}
	})
}

// TestWatchLaggingReplica: a block is listed before what is in it can be read.
func TestWatchLaggingReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := newFakeChain(1)
		l, conn := newLive(t, chain), newFakeConn()
		logs := l.subscribe(conn, `["logs",{}]`)
		chain.set(func() { chain.empty = true })
		chain.mine(1)
		<-time.After(3 * pollInterval)
		synctest.Wait()
		l.told("while there is nothing", conn, logs)
		chain.set(func() { chain.empty = false })
		<-time.After(3 * pollInterval)
		synctest.Wait()
		l.told("afterwards", conn, logs, 1)

		// If there never is anything, later blocks do not wait for ever.
		chain.set(func() { chain.empty = true })
		chain.mine(1)
		<-time.After(time.Minute)
		chain.set(func() { chain.empty = false })
		chain.mine(1)
		<-time.After(2 * pollInterval)
		synctest.Wait()
		l.told("after a block without logs", conn, logs, 1, 3)
	})
}

// TestWatchUnreadableBlock: a block that cannot be read holds up the later ones for a while, longer if the fault may end by itself. Then it
// is given up.
func TestWatchUnreadableBlock(t *testing.T) {
	incomplete := logJSON(synthetic, tokenLog, "0x", 0, 0, 2, transferID)
	incomplete["block_number"] = nil
	for name, test := range map[string]struct {
		answer string
		held   time.Duration
	}{
		"immature":   {listOf("logs", incomplete), time.Second},
		"unreadable": {"{", 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				chain := newFakeChain(1)
				chain.spoilt = map[int]string{2: test.answer}
				l, conn := newLive(t, chain), newFakeConn()
				logs := l.subscribe(conn, `["logs",{}]`)
				chain.mine(3)
				<-time.After(test.held)
				synctest.Wait()
				l.told("logs while they may come", conn, logs, 1)
				<-time.After(30 * time.Minute)
				synctest.Wait()
				l.told("logs", conn, logs, 1, 3)
				if got := number(t, l.metrics.skipped); got != 1 {
					t.Errorf("skipped blocks: got %v, want 1", got)
				}
			})
		})
	}
}

// A mistake in how a block is read is an error like others.
func TestWatchMistake(t *testing.T) {
	f := follower{Subscriptions: new(Subscriptions)} // it can read nothing
	if _, err := f.read(t.Context(), nil, demand{}); err == nil {
		t.Error("no error")
	}
}

// TestWatchAfterAnOutage: what came while the mirror node was away is told in order.
func TestWatchAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := newFakeChain(1)
		l, conn := newLive(t, chain), newFakeConn()
		heads := l.subscribe(conn, `["newHeads"]`)
		chain.set(func() { chain.down = true })
		chain.mine(10)
		<-time.After(time.Hour)
		l.told("while it is away", conn, heads)
		chain.set(func() { chain.down = false })
		<-time.After(time.Minute)
		l.told("afterwards", conn, heads, span(1, 10)...)
	})
}

// TestWatchDueBlocks: a block of a chain with an even pace is told of within an eighth of the interval.
func TestWatchDueBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := newFakeChain(1)
		l, conn := newLive(t, chain), newFakeConn()
		heads := l.subscribe(conn, `["newHeads"]`)
		for block := 1; block <= 40; block++ {
			chain.mine(1)
			<-time.After(pollInterval/closeLooks + time.Millisecond)
			if block > 20 {
				l.told("in time", conn, heads, span(1, block)...)
			}
			<-time.After(5 * pollInterval)
		}
	})
}

// TestWatchOnlyWhileWanted: without subscriptions to blocks the mirror node is not
// asked; whoever comes then gets what comes after.
func TestWatchOnlyWhileWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := newFakeChain(0)
		l, conn := newLive(t, chain), newFakeConn()
		l.subscribe(conn, `["newPendingTransactions"]`)
		<-time.After(time.Minute)
		if chain.asked != 0 {
			t.Errorf("asked %d times for nobody", chain.asked)
		}
		heads := l.subscribe(conn, `["newHeads"]`)
		chain.mine(2)
		<-time.After(2 * pollInterval)
		synctest.Wait()
		l.told("from the very first block", conn, heads, 0, 1)

		must.Get(l.try(conn, l.unsubscribe, fmt.Sprintf(`[%q]`, heads)))(t)
		<-time.After(2 * pollInterval)
		chain.set(func() { chain.asked = 0 })
		chain.mine(5)
		<-time.After(time.Minute)
		if chain.asked != 0 {
			t.Errorf("asked %d times after the last one left", chain.asked)
		}
		again := l.subscribe(conn, `["newHeads"]`)
		chain.mine(1)
		<-time.After(2 * pollInterval)
		synctest.Wait()
		l.told("what was told before", conn, heads, 0, 1)
		l.told("after coming back", conn, again, 7)
	})
}

// TestWatchCost: however many subscribe, and to however many different things, one
// question per interval is asked, and each block's logs are read once.
func TestWatchCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := newFakeChain(1)
		l := newLive(t, chain)
		for i := range 1000 {
			l.subscribe(newFakeConn(), fmt.Sprintf(`["logs",{"topics":["0x%064x"]}]`, i))
			l.subscribe(newFakeConn(), `["newHeads"]`)
		}
		<-time.After(pollInterval)
		chain.set(func() { chain.asked = 0 })
		chain.mine(1)
		<-time.After(10 * pollInterval)
		synctest.Wait()
		if chain.asked < 9 || chain.asked > 11 {
			t.Errorf("asked %d times in 10 intervals", chain.asked)
		}
		if chain.reads[1] > 2 { // once for the logs, once for the block, shared by the client's cache
			t.Errorf("logs of the block were read %d times", chain.reads[1])
		}
		if got := number(t, l.metrics.streams); got != 1001 {
			t.Errorf("streams: got %v, want 1001", got)
		}
	})
}

// TestWatchFirstSubscriptionNeedsHead: while the mirror node is down nobody is promised
// blocks from now on.
func TestWatchFirstSubscriptionNeedsHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := newFakeChain(1)
		chain.down = true
		l, conn := newLive(t, chain), newFakeConn()
		if _, err := l.try(conn, l.Subscriptions.subscribe, `["newHeads"]`); err == nil {
			t.Error("subscribed without a block to begin with")
		}
		if got := number(t, l.metrics.subscriptions); got != 0 {
			t.Errorf("subscriptions: got %v, want 0", got)
		}
	})
}
