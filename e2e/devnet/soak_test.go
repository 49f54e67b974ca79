package devnet

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
)

// soakTime is how long the network is used: some rounds in every run, longer where somebody asks for it.
func soakTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("LOCKSTEP_SOAK_TIME")
	if text == "" {
		return 0
	}
	return must.Get(time.ParseDuration(text))(t)
}

// TestSoakOfAState uses a network that is kept in a file, ends it again and again, by SIGTERM or by SIGKILL, and goes
// on with the file. Every transfer is executed once and in order, an orderly end loses nothing, and neither memory nor
// the file grow for ever.
func TestSoakOfAState(t *testing.T) {
	const (
		senders, each = 20, 50
		crowds        = 4               // of senders; the chain has no more accounts than these
		every         = 5 * time.Second // a round, in a long soak
		lives         = 8               // rounds until the process is ended
	)
	long := soakTime(t)
	began := time.Now()
	file := filepath.Join(t.TempDir(), "state")
	var n *running
	flags := []string{"--state", file, "--state-interval", "2s"}
	if long == 0 {
		flags = append(flags, "--history", "2000") // which a short run comes to, too
	}
	start := func() { n = dev(t, flags...) }
	start()
	var memory, size []int
	rounds, ends := 0, 0
	for ; rounds < 2*lives+1 || time.Since(began) < long; rounds++ {
		next := time.Now().Add(every)
		n.transfers(t, senders, each, fmt.Sprint("crowd ", rounds%crowds))
		memory = append(memory, n.Memory())
		if rounds%lives == lives-1 {
			ends++
			blocks := n.blocks(t)
			if orderly := ends%2 == 1; orderly {
				n.Stop()
				start()
				if got := n.blocks(t); got < blocks {
					t.Errorf("there are %d blocks, and were %d before an orderly end", got, blocks)
				}
			} else {
				n.Kill()
				start()
			}
			if info, err := os.Stat(file); err != nil {
				t.Fatal(err)
			} else {
				size = append(size, int(info.Size()))
			}
		}
		if long > 0 {
			<-time.After(time.Until(next))
		}
	}
	t.Logf("%d rounds of %d transfers in %v, %d ends; memory %.0f MiB at first, %.0f at the most, %.0f at last; file %.1f MiB at first, %.1f at last",
		rounds, senders*each, time.Since(began).Round(time.Second), ends, megabytes(memory[0]), megabytes(slices.Max(memory)), megabytes(memory[len(memory)-1]),
		megabytes(size[0]), megabytes(size[len(size)-1]))
	// What is kept is as much as the history allows long before the middle.
	const tolerance = 1.3
	half := len(memory) / 2
	if before, after := slices.Max(memory[:half]), slices.Max(memory[half:]); float64(after) > tolerance*float64(before) {
		t.Errorf("memory grows: %.0f MiB in the first half, %.0f in the second", megabytes(before), megabytes(after))
	}
	if first, last := size[len(size)/2], size[len(size)-1]; float64(last) > tolerance*float64(first) {
		t.Errorf("the file grows: %.1f MiB in the middle, %.1f at the end", megabytes(first), megabytes(last))
	}
	harness.Until(t, harness.StartLimit, "the process answers to the end", func() bool { return n.Alive() && n.blocks(t) > 0 })
}
