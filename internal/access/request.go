package access

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Errors of requests.
var (
	// ErrForbidden means that the caller is known, and may not do this.
	ErrForbidden = errors.New("the key's role does not allow it")
	// errCrossSite refuses what a browser sends for another site to a listener without keys.
	errCrossSite = errors.New("without a key, requests come from this machine's own programs and the listener's own page only: no other Origin, no proxy, and a Host that is loopback")
)

type callerKey struct{}

// known is what a context knows of who makes its request.
type known struct {
	Caller
	again func() error // asks once more
}

// With returns the context of a request with who makes it, as Who said.
func (k *Keys) With(r *http.Request, who Caller) context.Context {
	again := func() error { _, err := k.Who(r); return err }
	return context.WithValue(r.Context(), callerKey{}, known{who, again})
}

// Of returns who makes a request, a caller without a role if nobody has noted it.
func Of(ctx context.Context) Caller {
	who, _ := ctx.Value(callerKey{}).(known)
	return who.Caller
}

// revoked tells whether the caller of a request is one no more. While nothing can be known the caller stays.
func revoked(ctx context.Context) bool {
	who, ok := ctx.Value(callerKey{}).(known)
	return ok && errors.Is(who.again(), ErrUnauthorized)
}

// Allowed returns ErrForbidden unless the caller of a context has a role. A role that nobody named is nobody's.
func Allowed(ctx context.Context, want Role) error {
	if want == "" || !Of(ctx).Role.Includes(want) {
		return ErrForbidden
	}
	return nil
}

// Who returns who makes a request.
func (k *Keys) Who(r *http.Request) (Caller, error) {
	header := r.Header.Get("Authorization")
	if token, ok := strings.CutPrefix(header, "Bearer "); ok {
		return k.Bearer(r.Context(), strings.TrimSpace(token))
	}
	if user, password, ok := r.BasicAuth(); ok {
		return k.Basic(user, password)
	}
	open, err := k.Open(r.Context())
	switch {
	case err != nil:
		return Caller{}, err
	case !open || header != "":
		return Caller{}, ErrUnauthorized
	case !Loopback(r.RemoteAddr):
		return Caller{}, ErrUnauthorized
	case forwarded(r.Header), !Loopback(r.Host), Foreign(r):
		return Caller{}, errors.Join(ErrForbidden, errCrossSite)
	default:
		return Caller{Name: "loopback", Role: RoleAdmin}, nil
	}
}

// Public returns an error unless a request may have what holds no secret, such as the files of a page. Without keys it
// has to come from this machine, and by a name of this machine.
func (k *Keys) Public(r *http.Request) error {
	open, err := k.Open(r.Context())
	if err != nil {
		return err
	}
	if open && (!Loopback(r.RemoteAddr) || !Loopback(r.Host) || forwarded(r.Header)) {
		return errors.Join(ErrForbidden, errCrossSite)
	}
	return nil
}

// forwarded reports whether a proxy on this machine passes on what came from elsewhere.
func forwarded(header http.Header) bool {
	if header.Get("Forwarded") != "" {
		return true
	}
	for _, line := range header.Values("X-Forwarded-For") {
		for address := range strings.SplitSeq(line, ",") {
			if !Loopback(strings.TrimSpace(address)) {
				return true
			}
		}
	}
	return false
}

// Foreign reports whether a page of another origin made a request. Programs that are no browser send neither header. A
// page of the listener's own, whose origin has the host and the port that the request is for, is none.
func Foreign(r *http.Request) bool {
	if CrossSite(r.Header) {
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	from, err := url.Parse(origin)
	return err != nil || !strings.EqualFold(from.Host, r.Host)
}

// CrossSite reports whether a browser says that a page of another origin made the request.
func CrossSite(header http.Header) bool {
	value := header.Get("Sec-Fetch-Site")
	return value != "" && value != "none" && value != "same-origin"
}

// Loopback reports whether a host, with or without a port, is this machine alone.
func Loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if host == "localhost" {
		return true
	}
	if len(host) > 1 && host[0] == '[' && host[len(host)-1] == ']' {
		host = host[1 : len(host)-1]
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}
