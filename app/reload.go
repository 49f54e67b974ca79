package app

import (
	"context"
	"sync"

	"lockstep/config"
)

// reloading is how the settings are read again.
type reloading struct {
	mu    sync.Mutex // one at a time
	load  func() (config.Config, error)
	apply func(config.Config)
	now   config.Config // the settings in effect, guarded by mu
}

// Reloaded says what came of reading the settings again, by their names.
type Reloaded struct {
	// Changed have taken effect.
	Changed []string `json:"changed"`
	// Restart differ, and keep their old values until the relay is started again.
	Restart []string `json:"restart"`
}

// Reloads tells how the settings are read again, and what else than the relay itself takes new
// ones. Call it once, before Run.
func (a *App) Reloads(load func() (config.Config, error), apply func(config.Config)) {
	a.reloading.load, a.reloading.apply = load, apply
}

// inEffect returns the settings in effect.
func (a *App) inEffect() config.Config {
	a.reloading.mu.Lock()
	defer a.reloading.mu.Unlock()
	return a.reloading.now
}

// Reload reads the settings again and applies those that may change while the relay runs:
// docs/CONFIG.md marks them. If anything is wrong with the settings, nothing changes. It logs what has changed, and warns
// of names that may be misspelt, as New does.
func (a *App) Reload(ctx context.Context) (Reloaded, error) {
	r := &a.reloading
	r.mu.Lock()
	defer r.mu.Unlock()
	next, err := r.load()
	config.WarnOfDoubts(a.log, next.Doubts)
	config.WarnOfMisspelt(a.log, next.Misspelt) // also beside a mistake, which they may explain
	if err != nil {
		return Reloaded{}, err
	}
	done := Reloaded{Changed: []string{}, Restart: []string{}} // lists without anything, for JSON
	atOnce, restart := r.now.Changed(next)
	done.Changed, done.Restart = append(done.Changed, atOnce...), append(done.Restart, restart...)
	r.now.Take(next)
	limits := next.RPC.RateLimit
	a.callLimits.Store(&limits)
	a.locks.SetRollout(next.Lock)
	a.keys.Replace(next.RPC.Keys.APIKeys)
	a.ws.EndRevoked()
	a.warnOfIdle(next.RPC.Keys.APIKeys)
	a.warnOfIdleLimits(limits.Methods)
	r.apply(next)
	a.log.InfoContext(ctx, "the settings were read again", "changed", done.Changed, "need_a_restart", done.Restart)
	return done, nil
}
