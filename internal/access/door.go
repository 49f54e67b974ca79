package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"lockstep/internal/secret"
)

// Door says who gets in where nobody has a key: the console, and the manager's and the watchers' listeners before their first key.
//
// A listener on loopback is no proof that its callers are on this machine. A proxy in front of it makes strangers look local, and one
// that is set up in the simplest way sends no header that tells. So a door has a token, which the process prints when it starts, with
// an address that opens the page. Without a token, as in a process for development or by a setting of that name, a request must look
// local in every respect, and a browser must not have sent it for a page of another origin.
type Door struct{ token secret.String }

// NewDoor returns the door with a token, or the one that is open to this machine for "".
func NewDoor(token secret.String) Door { return Door{token} }

// Locked returns a door with a token that was just drawn.
func Locked() Door { return Door{secret.NewToken("lst_")} }

// Open reports whether the door has no token.
func (d Door) Open() bool { return d.token == "" }

// Tell prints the token, once and to the terminal: logs are kept, and read by others.
func (d Door) Tell(out io.Writer, what, page string) {
	if !d.Open() {
		_, _ = fmt.Fprintf(out, "\n%s: nobody has a key yet, so this start has a token:\n\n    %s#token=%s\n\n", what, page, d.token.Reveal())
	}
}

// Admits returns nil for a request that gets in, ErrUnauthorized for one without the token, and ErrForbidden for one that came
// through an open door from elsewhere.
func (d Door) Admits(r *http.Request) error {
	switch {
	case d.Open() && Foreign(r):
		return errors.Join(ErrForbidden, errCrossSite)
	case d.Open():
		return local(r)
	case d.fits(r):
		return nil
	default:
		return ErrUnauthorized
	}
}

// fits reports whether a request has the token. Hashing first makes the comparison take the same time whatever the length.
func (d Door) fits(r *http.Request) bool {
	want, got := sha256.Sum256([]byte("Bearer "+d.token.Reveal())), sha256.Sum256([]byte(r.Header.Get("Authorization")))
	return !d.Open() && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// Shows returns nil if a request may have what holds no secret, such as the files of a page.
func (d Door) Shows(r *http.Request) error {
	if d.Open() {
		return local(r)
	}
	return nil
}

// local returns an error unless a request comes from this machine, by a name of this machine, and no header says that somebody passed
// it on from elsewhere.
func local(r *http.Request) error {
	switch {
	case !Loopback(r.RemoteAddr):
		return ErrUnauthorized
	case forwarded(r.Header), !Loopback(r.Host):
		return errors.Join(ErrForbidden, errCrossSite)
	default:
		return nil
	}
}

// forwarded reports whether a header says that a proxy passes on what came from elsewhere. A program of this machine may name itself as
// the one it speaks for.
func forwarded(header http.Header) bool {
	for name := range header {
		switch {
		case strings.HasSuffix(name, "Forwarded-For"), strings.HasSuffix(name, "-Ip"), name == "X-Forwarded-Host":
			for _, line := range header[name] {
				for address := range strings.SplitSeq(line, ",") {
					if !Loopback(strings.TrimSpace(address)) {
						return true
					}
				}
			}
		case name == "Forwarded", name == "Via", strings.HasPrefix(name, "X-Forwarded-") && header.Get("X-Forwarded-For") == "":
			return true
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
