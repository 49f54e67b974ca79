package mirrorrest

import (
	"net/http"
	"net/url"
	"strings"
)

// A handler answers one kind of request. Its result is written as JSON; an error
// that is a *problem becomes its answer, any other one a 500.
type handler func(*request) (any, error)

// A route is a method and a path under the base, already split. A segment in
// braces matches anything and becomes the next entry of request.args.
type route struct {
	method   string
	segments []string
	handle   handler
}

// Routes are tried in order, so that a fixed path stands before one with a
// variable in the same place. (http.ServeMux refuses this set of paths: it finds
// contracts/{id}/results/{timestamp} and contracts/results/{hash}/actions in
// conflict.)
type routes []route

func (rs *routes) add(method, path string, h handler) {
	*rs = append(*rs, route{method: method, segments: strings.Split(path, "/"), handle: h})
}

// find returns the handler for an escaped path and the values of its variables,
// unescaped: a hash in base 64 may have a slash in it.
func (rs routes) find(method, path string) (handler, []string) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	segments := strings.Split(strings.Trim(path, "/"), "/")
	for _, r := range rs {
		if r.method != method || len(r.segments) != len(segments) {
			continue
		}
		if args, ok := r.match(segments); ok {
			return r.handle, args
		}
	}
	return nil, nil
}

func (r route) match(segments []string) (args []string, ok bool) {
	for i, want := range r.segments {
		switch {
		case strings.HasPrefix(want, "{"):
			arg, err := url.PathUnescape(segments[i])
			if err != nil {
				return nil, false
			}
			args = append(args, arg)
		case want != segments[i]:
			return nil, false
		}
	}
	return args, true
}
