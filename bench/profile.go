package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Profiler takes profiles of relays while they are under load, from their consoles (ADMIN_ADDRESS): the time of
// processors, and what was allocated. Its Before and After are hooks of a run.
type Profiler struct {
	Dir      string        // where the files go
	Consoles []string      // URLs, such as http://127.0.0.1:8547
	Token    string        // of the consoles, if they want one
	Lasts    time.Duration // of a profile; it counts in seconds

	pending sync.WaitGroup
	mu      sync.Mutex
	err     error
}

// Bounds of a profile.
const (
	minProfile = time.Second
	maxProfile = time.Minute
	// profileGrace is how much later than its end a profile may arrive.
	profileGrace = 2 * time.Minute
	// maxProfileSize is more than any profile has.
	maxProfileSize = 64 << 20
)

// Before begins the profiles of a run of the first target.
func (p *Profiler) Before(ctx context.Context, target, run int) error {
	if target > 0 {
		return nil
	}
	if err := os.MkdirAll(p.Dir, 0o750); err != nil {
		return err
	}
	for i := range p.Consoles {
		p.pending.Go(func() {
			err := p.Take(ctx, p.Consoles[i], fmt.Sprintf("send-run%d-relay%d", run+1, i+1))
			p.mu.Lock()
			defer p.mu.Unlock()
			p.err = errors.Join(p.err, err)
		})
	}
	return nil
}

// After waits for the profiles of a run. They may take longer than the load.
func (p *Profiler) After(context.Context, int, int) error {
	p.pending.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.err
	p.err = nil
	return err
}

// Take writes NAME.cpu.pprof and NAME.allocs.pprof of what a relay does from now on.
func (p *Profiler) Take(ctx context.Context, console, name string) error {
	var group sync.WaitGroup
	var cpu, allocs error
	group.Go(func() { cpu = p.fetch(ctx, console, "profile", name+".cpu.pprof") })
	group.Go(func() { allocs = p.fetch(ctx, console, "allocs", name+".allocs.pprof") })
	group.Wait()
	return errors.Join(cpu, allocs)
}

func (p *Profiler) fetch(ctx context.Context, console, kind, name string) error {
	lasts := min(max(p.Lasts, minProfile), maxProfile)
	ctx, cancel := context.WithTimeout(ctx, lasts+profileGrace)
	defer cancel()
	url := fmt.Sprintf("%s/debug/pprof/%s?seconds=%.0f", strings.TrimSuffix(console, "/"), kind, math.Ceil(lasts.Seconds()))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if p.Token != "" {
		req.Header.Set("Authorization", "Bearer "+p.Token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("no %s of a relay: %w", kind, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProfileSize))
	if err != nil {
		return fmt.Errorf("no %s of a relay: %w", kind, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("no %s of a relay: %s: %s", kind, resp.Status, body[:min(len(body), 200)])
	}
	return os.WriteFile(filepath.Join(p.Dir, name), body, 0o600)
}
