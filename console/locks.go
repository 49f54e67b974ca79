package console

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/lock"
)

func (c *Console) lanes() []lock.LaneInfo {
	if lanes := c.deps.Locks.Lanes(); lanes != nil {
		return lanes
	}
	return []lock.LaneInfo{} // a list without anything, for JSON
}

func (c *Console) listLocks(w http.ResponseWriter, _ *http.Request) {
	respond(w, map[string]any{"lanes": c.lanes()})
}

func (c *Console) releaseLock(w http.ResponseWriter, r *http.Request) {
	sender := r.PathValue("sender")
	if !common.IsHexAddress(sender) {
		http.Error(w, "not an address", http.StatusBadRequest)
		return
	}
	released, err := c.deps.Locks.ForceRelease(r.Context(), common.HexToAddress(sender))
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	c.deps.Log.Warn("lock released by hand", "sender", strings.ToLower(sender), "released", released)
	respond(w, map[string]any{"released": released})
}

// ordering is the run-time switch, and which senders are ordered while it is on.
type ordering struct {
	Enabled bool   `json:"enabled"`
	Ordered string `json:"ordered"`
}

func (c *Console) showOrdering(w http.ResponseWriter, _ *http.Request) {
	respond(w, ordering{Enabled: c.deps.Locks.On(), Ordered: c.deps.Locks.Ordered()})
}

func (c *Console) switchOrdering(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Enabled *bool `json:"enabled"`
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10))
	if err := decoder.Decode(&body); err != nil || body.Enabled == nil {
		http.Error(w, `want {"enabled":true} or {"enabled":false}`, http.StatusBadRequest)
		return
	}
	c.deps.Locks.SetEnabled(*body.Enabled)
	c.deps.Log.Warn("nonce ordering switched by hand", "enabled", *body.Enabled)
	respond(w, ordering{Enabled: *body.Enabled, Ordered: c.deps.Locks.Ordered()})
}

// reload reads the settings again for whoever may reach the console.
func (c *Console) reload(w http.ResponseWriter, r *http.Request) {
	if c.deps.Reload == nil {
		http.Error(w, "this relay has no settings to read again", http.StatusNotFound)
		return
	}
	done, err := c.deps.Reload(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	respond(w, done)
}
