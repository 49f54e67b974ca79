package access

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"lockstep/internal/clientip"
)

// Errors of requests.
var (
	// ErrForbidden means that the caller is known, and may not do this.
	ErrForbidden = errors.New("the key's role does not allow it")
	// ErrAddress means that the key is good, and the caller's address is not in its networks.
	ErrAddress = errors.New("the key's networks do not allow it")
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
	if k.Door.fits(r) {
		return k.first(r)
	}
	if token, ok := strings.CutPrefix(header, "Bearer "); ok {
		who, networks, err := k.bearer(r.Context(), strings.TrimSpace(token))
		if err != nil || len(networks) == 0 {
			return who, err
		}
		from := clientip.Of(r.Header, r.RemoteAddr, k.Proxies)
		if address, err := netip.ParseAddr(from); err != nil || !networks.Have(address) {
			return Caller{}, fmt.Errorf("%w: it may be used from some networks only, and %s, where this request comes from, is in none of them", ErrAddress, from)
		}
		return who, nil
	}
	if user, password, ok := r.BasicAuth(); ok {
		return k.Basic(user, password)
	}
	if header != "" {
		return Caller{}, ErrUnauthorized
	}
	return k.first(r)
}

// first returns the caller of a request while there is no key.
func (k *Keys) first(r *http.Request) (Caller, error) {
	open, err := k.Open(r.Context())
	switch {
	case err != nil:
		return Caller{}, err
	case !open:
		return Caller{}, ErrUnauthorized
	}
	if err := k.Door.Admits(r); err != nil {
		return Caller{}, err
	}
	return Caller{Name: "loopback", Role: RoleAdmin}, nil
}

// Public returns an error unless a request may have what holds no secret, such as the files of a page.
func (k *Keys) Public(r *http.Request) error {
	open, err := k.Open(r.Context())
	if err == nil && open {
		err = k.Door.Shows(r)
	}
	if errors.Is(err, ErrUnauthorized) {
		err = errors.Join(ErrForbidden, errCrossSite)
	}
	return err
}
