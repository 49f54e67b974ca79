package page

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

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

// Keyed is the page of a listener whose callers have access keys.
type Keyed struct {
	Keys  *access.Keys
	About About
	// Refuses says why a caller with a key may not use the listener at all; nil: each may.
	Refuses func(access.Caller) error
}

// Guard finds out who calls before anything else happens. Probes need nobody, and nor do the files of the page. scheme is how to show a key,
// and refuse answers whoever may not go on.
func (k Keyed) Guard(next http.Handler, scheme string, refuse func(w http.ResponseWriter, r *http.Request, err error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if strings.HasPrefix(r.URL.Path, "/health/") {
			next.ServeHTTP(w, r)
			return
		}
		if k.Serve(w, r) {
			return
		}
		who, err := k.who(r)
		if errors.Is(err, access.ErrUnauthorized) {
			w.Header().Set("WWW-Authenticate", scheme)
		}
		if err != nil {
			refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(k.Keys.With(r, who)))
	})
}

func (k Keyed) who(r *http.Request) (access.Caller, error) {
	who, err := k.Keys.Who(r)
	if err == nil && k.Refuses != nil {
		err = k.Refuses(who)
	}
	return who, err
}

// Serve answers a request for the page itself, and says whether it was one. What the page shows it asks of the listener.
func (k Keyed) Serve(w http.ResponseWriter, r *http.Request) bool {
	about := r.URL.Path == AboutPath
	if r.Method != http.MethodGet && r.Method != http.MethodHead || !about && !Has(r.URL.Path) {
		return false
	}
	err := k.Keys.Public(r)
	if err == nil && about && access.Foreign(r) {
		err = access.ErrForbidden
	}
	var who access.Caller
	if err == nil && about {
		if who, err = k.Keys.Who(r); errors.Is(err, access.ErrUnauthorized) || err == nil && k.Refuses != nil && k.Refuses(who) != nil {
			who, err = access.Caller{}, nil
		}
	}
	switch {
	case errors.Is(err, access.ErrForbidden):
		http.Error(w, "ask from this machine, by a loopback address, and from no page of another origin", http.StatusForbidden)
	case err != nil:
		http.Error(w, "the database does not answer; the log tells more", http.StatusServiceUnavailable)
	case about:
		k.About.To(w, who)
	default:
		Serve(w, r)
	}
	return true
}
