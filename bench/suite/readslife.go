package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"lockstep/internal/sleep"
)

const mebi = 1 << 20

// readsMemory is what the process of a relay needs.
func readsMemory(ctx context.Context, l *lab, t *table, runs int) error {
	const crowd = 128
	busy := fmt.Sprintf("peak, full blocks at %d connections", crowd)
	t.want("resident, 5 s after the start", "MiB", atMost(40, "40"), "163")
	t.want(busy, "MiB", atMost(150, "150"), "794")
	a, err := l.library(ctx, archiveBlocks)
	if err != nil {
		return err
	}
	defer a.kill()
	for range runs {
		relay, err := l.relay(ctx, a.network, nil)
		if err != nil {
			return err
		}
		sleep.For(ctx, 5*time.Second)
		t.add(false, "resident, 5 s after the start", "MiB", relay.rss()/mebi)
		_, err = l.read(ctx, reading{
			relay: relay, archive: a, name: "memory", connections: crowd, requests: 3 * archiveBlocks,
			body: func(i int) string {
				return ask("eth_getBlockByNumber", hex(a.blocks.First+int64(i%archiveBlocks)), true)
			},
		})
		t.add(false, busy, "MiB", relay.peak()/mebi)
		relay.kill()
		if err != nil {
			return err
		}
	}
	t.note("Resident memory is what the kernel counts, and the peak is the kernel's, too.")
	return nil
}

// readsStart is the time from the start of the process to its first answer.
func readsStart(ctx context.Context, l *lab, t *table, runs int) error {
	t.want("mirror node up", "ms", atMost(50, "50"), "649")
	t.want("mirror node down", "ms", atMost(50, "50"), "ends after 29.9 s")
	a, err := l.library(ctx, 1)
	if err != nil {
		return err
	}
	defer a.kill()
	settings, err := relaySettings(a.network, nil)
	if err != nil {
		return err
	}
	for range runs {
		for _, c := range []struct {
			label string
			env   []string
		}{{"mirror node up", nil}, {"mirror node down", []string{"MIRROR_NODE_URL=http://127.0.0.1:1"}}} {
			took, err := l.firstAnswer(ctx, slices.Concat(settings, l.settings, c.env))
			if err != nil {
				return err
			}
			t.add(false, c.label, "ms", float64(took)/1e6)
		}
	}
	return nil
}

// firstAnswer starts a relay and ends it.
func (l *lab) firstAnswer(ctx context.Context, env []string) (time.Duration, error) {
	port, err := freePort(ctx)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	p, err := l.start("relay", append(env, "SERVER_PORT="+port), l.program, "serve")
	if err != nil {
		return 0, err
	}
	defer p.kill()
	if err := answers(ctx, "http://127.0.0.1:"+port); err != nil {
		return 0, fmt.Errorf("%w\n%s", err, p.tail())
	}
	return time.Since(start), nil
}

// readsLarge is one very large block with all its transactions.
func readsLarge(ctx context.Context, l *lab, t *table, runs int) error {
	const size = 10_000
	t.want("time to the answer", "s", atMost(1, "1"), "45–50 for 11,000")
	t.want("CPU of the relay", "ms", nil, "")
	t.want("answer", "MiB", nil, "")
	t.want("growth of the process at its peak", "MiB", nil, "")
	t.want("calls of the mirror node", "", nil, "")
	a, err := l.library(ctx, 1)
	if err != nil {
		return err
	}
	defer a.kill()
	large, err := a.add(ctx, 1, size)
	if err != nil {
		return err
	}
	for range runs {
		if err := l.large(ctx, t, a, large.First, size); err != nil {
			return err
		}
	}
	t.note("The mirror node is the devnet's and shares the processors; the limit on full blocks is raised for this.")
	return nil
}

func (l *lab) large(ctx context.Context, t *table, a *library, number int64, size int) error {
	relay, err := l.relay(ctx, a.network, nil, fmt.Sprintf("ETH_GET_TRANSACTION_COUNT_MAX_BLOCK_RANGE=%d", size+1))
	if err != nil {
		return err
	}
	defer relay.kill()
	calls, err := a.calls(ctx)
	if err != nil {
		return err
	}
	resident, cpu, start := relay.rss(), relay.cpu(), time.Now()
	var text string
	if err := request(ctx, http.MethodPost, relay.url, ask("eth_getBlockByNumber", hex(number), true), &text); err != nil {
		return err
	}
	took, used := time.Since(start), relay.cpu()-cpu
	if have := strings.Count(text, `"transactionIndex"`); have != size {
		return fmt.Errorf("%d of %d transactions: %.300s", have, size, text)
	}
	t.add(false, "time to the answer", "s", took.Seconds())
	t.add(false, "CPU of the relay", "ms", used*1e3)
	t.add(false, "answer", "MiB", float64(len(text))/mebi)
	t.add(false, "growth of the process at its peak", "MiB", (relay.peak()-resident)/mebi)
	after, err := a.calls(ctx)
	t.add(false, "calls of the mirror node", "", after-calls)
	return err
}
