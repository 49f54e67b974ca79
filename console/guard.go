package console

import (
	"net/http"

	"lockstep/console/page"
	"lockstep/internal/access"
)

// refuse says why a request does not get in, or 0. A browser on the same machine reaches
// loopback for any page that it shows, so requests of other origins are refused first.
func (c *Console) refuse(r *http.Request) (reason string, status int) {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if c.deps.Door.Shows(r) != nil {
		return "ask from this machine, by a loopback address, and not through a proxy", http.StatusForbidden
	}
	switch {
	case reads && page.Has(r.URL.Path): // it holds no secret, and a link may lead to it
		return "", 0
	case access.Foreign(r):
		return "not for pages of other origins", http.StatusForbidden
	case reads && r.URL.Path == page.AboutPath: // it tells strangers nothing but what the page asks them for
		return "", 0
	case c.deps.Door.Admits(r) != nil:
		return "wrong or missing bearer token: it is the relay's ADMIN_TOKEN, or what it printed at its start", http.StatusUnauthorized
	default:
		return "", 0
	}
}

// about tells the page what this process is. Who has the token may do everything.
func (c *Console) about(w http.ResponseWriter, r *http.Request) {
	var who access.Caller
	if c.deps.Door.Admits(r) == nil {
		who.Role = access.RoleAdmin
	}
	page.About{
		Parts: []string{page.PartRelay}, Needs: "the relay’s token: its setting ADMIN_TOKEN, or what it printed at its start", Beside: c.deps.Beside, Version: c.deps.Version,
	}.To(w, who)
}
