package console

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"

	"lockstep/console/page"
	"lockstep/internal/access"
)

// refuse says why a request does not get in, or 0. A browser on the same machine reaches
// loopback for any page that it shows, so requests of other origins are refused first.
func (c *Console) refuse(r *http.Request) (reason string, status int) {
	want := sha256.Sum256([]byte("Bearer " + c.deps.Token.Reveal()))
	// Hashing first makes the comparison take the same time whatever the length.
	got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
	file := page.Has(r.URL.Path) && (r.Method == http.MethodGet || r.Method == http.MethodHead)
	switch {
	case c.deps.Token == "" && !access.Loopback(r.Host):
		return "ask by a loopback address", http.StatusForbidden
	case file: // it holds no secret, and a link may lead to it
		return "", 0
	case foreign(r):
		return "not for pages of other origins", http.StatusForbidden
	case c.deps.Token != "" && subtle.ConstantTimeCompare(got[:], want[:]) != 1:
		return "wrong or missing bearer token", http.StatusUnauthorized
	default:
		return "", 0
	}
}

// foreign says whether a page of another origin made the request. Programs that are no browser
// send neither header.
func foreign(r *http.Request) bool {
	if access.CrossSite(r.Header) {
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	from, err := url.Parse(origin)
	return err != nil || !strings.EqualFold(from.Host, r.Host)
}
