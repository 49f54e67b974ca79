package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockstep/internal/clientip"
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

const (
	heartbeat   = 15 * time.Second // how often a quiet stream says that it lives
	streamWrite = 30 * time.Second // a reader that takes nothing for so long is gone
)

// Stream writes server-sent events to one reader until the reader or ctx ends, or the reader's key is revoked: nothing
// of a page is written after that. page waits for the events behind a cursor, at the longest until its context ends; it
// returns their text, which may be empty, and the cursor of the last. The error is page's; the reader comes back with
// the last id that it has received.
//
// A quiet stream says its cursor, at once and then every 15 s: an id without data, which moves the reader's last id and is no event. So a
// reader that asked for what happens from now on, and is cut off before anything has, misses nothing.
func Stream(ctx context.Context, w http.ResponseWriter, after int64, page func(ctx context.Context, after int64) (events string, last int64, err error)) error {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	for text := position(after); !revoked(ctx); {
		_ = out.SetWriteDeadline(time.Now().Add(streamWrite))
		if _, err := io.WriteString(w, text); err != nil || out.Flush() != nil || ctx.Err() != nil {
			return nil //nolint:nilerr // the reader is gone
		}
		wait, cancel := context.WithTimeout(ctx, heartbeat)
		events, last, err := page(wait, after)
		cancel()
		if err != nil {
			return err
		}
		if text, after = events, last; text == "" {
			text = position(after) // keeps proxies from closing it
		}
	}
	return nil
}

func position(cursor int64) string { return "id: " + strconv.FormatInt(cursor, 10) + "\n\n" }

// Places are room for what is open for a while, such as a stream or a call that waits. Tenants share it fairly, and without a
// setting for each: a tenant gets another place only while it has fewer than are free. Alone it can have half of them, and two
// greedy ones a third each, so whoever comes next finds room. Switches share their buffers between ports by the same rule.
type Places struct {
	mu   sync.Mutex // guards all below
	free int
	held map[string]int // by tenant; no entry for 0
}

// NewPlaces makes room for so many at once. A single tenant alone gets half of it, and at least one.
func NewPlaces(size int) *Places { return &Places{free: size, held: map[string]int{}} }

// Take returns how to give a place back, or nil if the tenant has its share already. Giving it back twice is a mistake.
func (p *Places) Take(tenant string) (giveBack func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[tenant] >= p.free {
		return nil
	}
	p.free--
	p.held[tenant]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.free++
		if p.held[tenant]--; p.held[tenant] == 0 {
			delete(p.held, tenant)
		}
	}
}
