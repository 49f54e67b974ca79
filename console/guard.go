package console

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"

	"lockstep/console/page"
	"lockstep/internal/access"
)

// refuse says why a request does not get in, or 0. A browser on the same machine reaches
// loopback for any page that it shows, so requests of other origins are refused first.
func (c *Console) refuse(r *http.Request) (reason string, status int) {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case c.deps.Token == "" && !access.Loopback(r.Host):
		return "ask by a loopback address", http.StatusForbidden
	case reads && page.Has(r.URL.Path): // it holds no secret, and a link may lead to it
		return "", 0
	case access.Foreign(r):
		return "not for pages of other origins", http.StatusForbidden
	case reads && r.URL.Path == page.AboutPath: // it tells strangers nothing but what the page asks them for
		return "", 0
	case !c.known(r):
		return "wrong or missing bearer token", http.StatusUnauthorized
	default:
		return "", 0
	}
}

// known says whether a request has the token, if there is one.
func (c *Console) known(r *http.Request) bool {
	want := sha256.Sum256([]byte("Bearer " + c.deps.Token.Reveal()))
	// Hashing first makes the comparison take the same time whatever the length.
	got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
	return c.deps.Token == "" || subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// about tells the page what this process is. Who has the token may do everything.
func (c *Console) about(w http.ResponseWriter, r *http.Request) {
	var who access.Caller
	if c.known(r) {
		who.Role = access.RoleAdmin
	}
	page.About{
		Parts: []string{page.PartRelay}, Needs: "the relay’s token: its setting ADMIN_TOKEN", Beside: c.deps.Beside, Version: c.deps.Version,
	}.To(w, who)
}
