package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/internal/proctest"
	"lockstep/internal/sleep"
)

// lab is the network and the place for logs.
type lab struct {
	program string
	dir     string
	race    bool  // the program reports its data races into files in dir
	enough  int64 // memory of a relay after an attack at which nobody waits for less
	network *proctest.Process
	echo    *proctest.Process
	echoURL string
	redis   string // of the attack's relay, if it has one
	console string // host and port by which its clients reach the console, if it has one
	ready   struct {
		Consensus, Mirror string
		Accounts          []struct{ ID, Address, PrivateKey string }
	}
}

// open starts the network.
func open(ctx context.Context, program string, race bool) (l *lab, err error) {
	l = &lab{race: race}
	if race {
		if err := builtWithRace(program); err != nil {
			return nil, err
		}
	}
	if err := l.openEcho(ctx); err != nil {
		return nil, err
	}
	if l.program, err = filepath.Abs(program); err != nil {
		return nil, err
	}
	if l.dir, err = os.MkdirTemp("", "attack-*"); err != nil {
		return nil, err
	}
	if l.network, err = proctest.Start(l.command(ctx, nil, "devnet", "--json", "--mirror", "127.0.0.1:0", "--consensus", "127.0.0.1:0")); err != nil {
		return nil, err
	}
	return l, l.network.Says(ctx, startLimit, func(line []byte) bool { return json.Unmarshal(line, &l.ready) == nil && l.ready.Mirror != "" })
}

// startLimit is for a process to be ready; the machine may be busy.
const startLimit = 2 * time.Minute

func (l *lab) command(ctx context.Context, env []string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, l.program, args...)
	c.Dir = l.dir // no .env file of the caller's
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "TMPDIR=" + os.TempDir()}, env...)
	if l.race {
		c.Env = append(c.Env, "GORACE=halt_on_error=1 log_path="+filepath.Join(l.dir, raceLog))
	}
	return c
}

// raceLog is how the names of the race detector's files begin; a process id follows.
const raceLog = "race"

// builtWithRace tells whether a program would notice a data race at all.
func builtWithRace(program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	if !slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return fmt.Errorf("%s was not built with -race", program)
	}
	return nil
}

// races returns what the race detector found so far as an error.
func (l *lab) races() error {
	files, err := filepath.Glob(filepath.Join(l.dir, raceLog+".*"))
	if err != nil || len(files) == 0 {
		return err
	}
	report, err := os.ReadFile(files[0])
	return errors.Join(fmt.Errorf("%d processes had a data race; the first one:\n%s", len(files), report), err)
}

func (l *lab) close() {
	l.network.Kill()
	l.echo.Kill()
	_ = os.RemoveAll(l.dir)
}

// target is the relay that is attacked.
type target struct {
	*lab
	process  *proctest.Process
	url, ws  string
	answered atomic.Int64
	refused  atomic.Int64
	mu       sync.Mutex
	note     string    // guarded by mu
	wrongs   []string  // guarded by mu; what must not be
	clients  int       // of the attack
	began    time.Time // the attack
	signed   []string  // transactions that its clients send
}

// relay starts a relay with its defaults and what an attack needs.
func (l *lab) relay(ctx context.Context, settings []string) (*target, error) {
	nodes, err := json.Marshal(map[string]string{l.ready.Consensus: "0.0.3"})
	if err != nil {
		return nil, err
	}
	operator := l.ready.Accounts[0]
	t := &target{lab: l}
	t.process, err = proctest.Start(l.command(ctx, slices.Concat([]string{
		"CHAIN_ID=0x12a", "HEDERA_NETWORK=" + string(nodes), "MIRROR_NODE_URL=" + l.ready.Mirror,
		"OPERATOR_ID_MAIN=" + operator.ID, "OPERATOR_KEY_MAIN=" + operator.PrivateKey, "OPERATOR_KEY_FORMAT=HEX_ECDSA",
		"SERVER_HOST=127.0.0.1", "SERVER_PORT=0", "RPC_WS_ENABLED=true", "WEB_SOCKET_PORT=0", "PRETTY_LOGS_ENABLED=false",
	}, settings), "serve"))
	if err != nil {
		return nil, err
	}
	return t, t.process.Says(ctx, startLimit, func(line []byte) bool {
		var record struct{ Msg, HTTP, WS string }
		if json.Unmarshal(line, &record) != nil || record.Msg != "relay is ready" {
			return false
		}
		t.url, t.ws = "http://"+record.HTTP, "ws://"+record.WS
		return true
	})
}

// rss is the relay's resident memory in bytes, 0 if it cannot be had.
func (t *target) rss() int64 {
	bytes, _ := t.process.Memory(proctest.Resident)
	return int64(bytes)
}

// count counts an answer by what is in it.
func (t *target) count(status int, answer []byte) {
	if status == http.StatusOK && bytes.Contains(answer, []byte(`"result"`)) {
		t.answered.Add(1)
	}
	if refusals := int64(bytes.Count(answer, []byte(`"error"`))); refusals > 0 {
		t.refused.Add(refusals)
	}
}

// wrong notes something that must not be; of many such things the first few are enough.
func (t *target) wrong(format string, args ...any) {
	const few = 5
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.wrongs) < few {
		t.wrongs = append(t.wrongs, fmt.Sprintf(format, args...))
	}
}

func (t *target) say(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.note = fmt.Sprintf(format, args...)
}

// result is a row of the table.
type result struct {
	peak, after       int64
	before, during    pair // the honest clients' p99
	answered, refused int64
	counted           bool // the work is counted: times are not judged
	note              string
	wrongs            []string // what must not be
}

// What an attack may cost.
const (
	mostMemory  = 512 << 20
	mostLatency = 50 * time.Millisecond // of an honest client's slowest hundredth, times the machine's noise
)

// verdict is all that must not be. Times are not judged under the race detector, nor is memory.
func (r *result) verdict(race bool) []string {
	all := slices.Clone(r.wrongs)
	if race {
		return all
	}
	if r.peak > mostMemory {
		all = append(all, fmt.Sprintf("the relay took %d MB of memory, and %d may be", r.peak>>20, mostMemory>>20))
	}
	switch may := time.Duration(float64(mostLatency) * r.noise()); {
	case r.during.relay == refused:
		all = append(all, "an honest client was refused")
	case r.during.relay > may && !r.counted:
		all = append(all, fmt.Sprintf("an honest client's slowest hundredth took %v, and %v may be on this machine", r.during.relay, may))
	}
	return all
}

// pair is what was measured at the same time of the relay and of the server that does nothing.
type pair struct{ relay, echo time.Duration }

// noise is how much slower than before a server that does nothing was under the attack.
func (r *result) noise() float64 { return max(1, float64(r.during.echo)/float64(r.before.echo)) }

// attack does one attack.
func (l *lab) attack(ctx context.Context, a attack, clients int, length, rest time.Duration) (result, error) {
	settings := a.settings
	if a.stage != nil {
		more, end, err := a.stage(ctx, l)
		if err != nil {
			return result{}, err
		}
		defer end()
		settings = slices.Concat(settings, more)
	}
	t, err := l.relay(ctx, settings)
	if err != nil {
		return result{}, err
	}
	defer t.process.Kill()
	t.clients, t.began = clients, time.Now()
	if a.prepare != nil {
		if err := a.prepare(ctx, t); err != nil {
			return result{}, err
		}
	}
	r := result{counted: a.counted}
	quiet, end := context.WithTimeout(ctx, length/3)
	r.before = t.honest(quiet)
	end()
	under, end := context.WithTimeout(ctx, length)
	if a.whole {
		end()
		under, end = context.WithCancel(ctx)
	}
	defer end()
	ends := time.Now().Add(length)
	watched := make(chan int64, 1)
	go func() { watched <- t.watch(under) }()
	var group sync.WaitGroup
	for i := range clients {
		c := client{target: t, url: t.url, number: i, http: &http.Client{Transport: &http.Transport{MaxIdleConns: 4, MaxIdleConnsPerHost: 4, DisableCompression: true}}}
		group.Go(func() {
			defer c.http.CloseIdleConnections()
			a.run(under, &c)
		})
	}
	if a.whole {
		go func() {
			group.Wait()
			sleep.For(under, time.Until(ends))
			end()
		}()
	}
	r.during = t.honest(under)
	group.Wait()
	r.peak = <-watched
	for end := time.Now().Add(rest); time.Now().Before(end) && t.rss() > l.enough && ctx.Err() == nil; {
		sleep.For(ctx, min(100*time.Millisecond, time.Until(end)))
	}
	r.after, r.answered, r.refused = t.rss(), t.answered.Load(), t.refused.Load()
	if a.check != nil {
		if err := a.check(ctx, t); err != nil {
			return r, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r.note, r.wrongs = t.note, t.wrongs
	return r, errors.Join(ctx.Err(), l.races())
}

// watch returns the most memory that the relay has until the context ends.
func (t *target) watch(ctx context.Context) (peak int64) {
	for ctx.Err() == nil {
		peak = max(peak, t.rss())
		sleep.For(ctx, 10*time.Millisecond)
	}
	return max(peak, t.rss())
}

// refused stands for the time of an answer that an honest client did not get.
const refused = time.Hour

// honest asks the relay for the chain id, and the echo server for the same text, until the
// context ends, and returns the p99 of both.
func (t *target) honest(ctx context.Context) (p pair) {
	echo := make(chan time.Duration, 1)
	go func() { echo <- t.ask(ctx, t.echoURL, "eth_chainId") }()
	p.relay = t.ask(ctx, t.url, `"0x12a"`)
	p.echo = <-echo
	return p
}

// ask asks for the chain id until the context ends and returns the p99; refused if there was an
// answer without the text that is wanted.
func (t *target) ask(ctx context.Context, url, want string) time.Duration {
	c := client{target: t, url: url, number: honestNumber, http: &http.Client{Transport: new(http.Transport)}}
	defer c.http.CloseIdleConnections()
	var times []time.Duration
	for {
		start := time.Now()
		answer, err := c.send(context.WithoutCancel(ctx), call("eth_chainId"))
		if err == nil && strings.Contains(string(answer), want) {
			times = append(times, time.Since(start))
		} else {
			times = append(times, refused)
		}
		sleep.For(ctx, 2*time.Millisecond)
		if ctx.Err() != nil {
			break
		}
	}
	slices.Sort(times)
	if times[len(times)-1] == refused {
		return refused
	}
	return times[len(times)*99/100]
}
