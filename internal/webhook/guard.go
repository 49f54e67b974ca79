package webhook

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"lockstep/internal/clientip"
)

// ErrPrivate means that a URL leads to a private address that is not allowed.
var ErrPrivate = errors.New("private address")

// Guard decides which addresses may be reached. The zero Guard allows public ones only.
type Guard struct{ allowed clientip.Networks }

// NewGuard makes a guard that allows these networks besides the public ones. A single
// address is a network of one; "*" allows all.
func NewGuard(networks []string) (g Guard, err error) {
	if slices.Contains(networks, "*") {
		networks = []string{"0.0.0.0/0", "::/0"}
	}
	g.allowed, err = clientip.Read(networks)
	return g, err
}

// special are networks that lead inside, besides those that netip knows by name.
var special = clientip.Networks{
	netip.MustParsePrefix("0.0.0.0/8"),       // this network
	netip.MustParsePrefix("100.64.0.0/10"),   // shared by carriers and clouds
	netip.MustParsePrefix("192.0.0.0/24"),    // protocol assignments
	netip.MustParsePrefix("198.18.0.0/15"),   // benchmarks
	netip.MustParsePrefix("240.0.0.0/4"),     // reserved, broadcast
	netip.MustParsePrefix("64:ff9b:1::/48"),  // local translation
	netip.MustParsePrefix("100::/64"),        // discard
	netip.MustParsePrefix("fec0::/10"),       // site-local
	netip.MustParsePrefix("2001::/32"),       // Teredo carries an IPv4 address in another form
	netip.MustParsePrefix("192.88.99.0/24"),  // 6to4 relays
	netip.MustParsePrefix("192.0.2.0/24"),    // documentation
	netip.MustParsePrefix("198.51.100.0/24"), // documentation
	netip.MustParsePrefix("203.0.113.0/24"),  // documentation
}

// Allows reports whether an address may be reached.
func (g Guard) Allows(address netip.Addr) bool {
	if address = inner(address.WithZone("")); g.allowed.Have(address) {
		return true
	}
	if !address.IsValid() || !address.IsGlobalUnicast() || address.IsPrivate() {
		return false
	}
	return !special.Have(address)
}

// inner takes an IPv4 address out of the IPv6 addresses that carry one: mapped,
// compatible, 6to4, and the well-known translation prefix.
func inner(address netip.Addr) netip.Addr {
	address = address.Unmap()
	if !address.Is6() {
		return address
	}
	b := address.As16()
	switch {
	case b[0] == 0x20 && b[1] == 0x02:
		return netip.AddrFrom4([4]byte(b[2:6]))
	case [12]byte(b[:12]) == [12]byte{0x00, 0x64, 0xff, 0x9b}:
		return netip.AddrFrom4([4]byte(b[12:]))
	case [12]byte(b[:12]) == [12]byte{} && address != netip.IPv6Loopback() && address != netip.IPv6Unspecified():
		return netip.AddrFrom4([4]byte(b[12:]))
	default:
		return address
	}
}

// Check refuses a URL that can never be reached: of another scheme, with a user in it,
// or with a private address written out. A name is judged when it is dialled.
func (g Guard) Check(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("not a URL")
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return errors.New("want an http or https URL")
	case u.Hostname() == "":
		return errors.New("the URL has no host")
	case u.User != nil:
		return errors.New("the URL must not hold a user or a password")
	case u.Fragment != "":
		return errors.New("the URL must not have a fragment")
	}
	if address, err := netip.ParseAddr(u.Hostname()); err == nil && !g.Allows(address) {
		return fmt.Errorf("%s: %w", address, ErrPrivate)
	}
	if name := strings.TrimSuffix(strings.ToLower(u.Hostname()), "."); name == "localhost" || strings.HasSuffix(name, ".localhost") {
		if !g.Allows(netip.MustParseAddr("127.0.0.1")) && !g.Allows(netip.IPv6Loopback()) {
			return fmt.Errorf("%s: %w", name, ErrPrivate)
		}
	}
	return nil
}

// control is a net.Dialer's Control: it sees the address that is dialled, after any name
// was resolved.
func (g Guard) control(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return fmt.Errorf("%q is not an IP address", host)
	}
	if !g.Allows(ip) {
		return fmt.Errorf("%s: %w", ip, ErrPrivate)
	}
	return nil
}
