package rpc

import (
	"net/http"
	"net/url"
	"strings"
)

// isOrigin reports whether a setting is *, or an origin as browsers send it.
func isOrigin(text string) bool {
	if text == "*" {
		return true
	}
	u, err := url.Parse(text)
	return err == nil && u.Scheme != "" && u.Host != "" && u.User == nil &&
		strings.EqualFold(text, u.Scheme+"://"+u.Host)
}

// allowsOrigin tells whether the page that makes an upgrade request may connect. A
// request without an origin does not come from a page.
func (c *WebSocketConfig) allowsOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	for _, allowed := range c.AllowedOrigins {
		if allowed == "*" || strings.EqualFold(allowed, origin) {
			return true
		}
	}
	return false
}
