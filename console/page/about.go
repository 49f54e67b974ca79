package page

import (
	"encoding/json"
	"net/http"

	"lockstep/internal/access"
)

// AboutPath is where a process says what it is.
const AboutPath = Prefix + "about"

// The parts of the page.
const (
	PartRelay    = "relay"
	PartManager  = "manager"
	PartWatchers = "watchers"
)

// About is what a process says of itself to the page.
type About struct {
	Parts  []string `json:"parts"`
	Needs  string   `json:"needs"`            // what the page asks people for, in words
	Beside []Link   `json:"beside,omitempty"` // pages of processes that belong to this one
	// Those below are for callers who are known.
	Version string      `json:"version,omitempty"`
	Role    access.Role `json:"role,omitempty"`
	Tenant  string      `json:"tenant,omitempty"`
}

// Link leads to the page of another process.
type Link struct {
	Text string `json:"text"`
	URL  string `json:"url"`
}

// To answers a caller, who has no role if nobody knows it.
func (a About) To(w http.ResponseWriter, who access.Caller) {
	if a.Role, a.Tenant = who.Role, who.Tenant; who.Role == "" {
		a.Version, a.Tenant = "", ""
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(a) // a client that went away needs no answer
}
