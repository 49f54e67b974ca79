package console

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

// mirrorOf answers GET /ui/mirror/{path} with what the development network's mirror node says to
// GET /api/v1/{path}. The host is always the same, whatever the request says.
func mirrorOf(node *url.URL) http.Handler {
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		path := "/api/v1/" + strings.TrimPrefix(r.In.URL.Path, "/ui/mirror/")
		r.Out.URL = &url.URL{Scheme: node.Scheme, Host: node.Host, Path: path, RawQuery: r.In.URL.RawQuery}
		r.Out.Host = node.Host
		r.Out.Header = http.Header{"Accept": {"application/json"}}
	}}
}
