// Package clientip tells whose request it is when proxies stand in between.
//
// A proxy names the client that it speaks for in X-Forwarded-For or Forwarded, and anybody else can write
// such a header, too. So what a header says counts only if it came from a proxy that the settings trust.
//
// # Words
//
//	network  a block of addresses such as 10.0.0.0/8, or one address
//	trusted  of a proxy: what it says of its client is believed
package clientip

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"lockstep/internal/envx"
)

// Config says which proxies are believed.
type Config struct {
	// Believe what trusted proxies say of their client (X-Forwarded-For, Forwarded). With false
	// no proxy is believed: limits per address, and lists of addresses, then go by the address of the socket.
	TrustProxyHeaders bool `env:"TRUST_PROXY_HEADERS" envDefault:"true"`
	// Networks (CIDR) or addresses of trusted proxies, by default those of loopback and of
	// private networks. Whoever is in them can name any address as the client's, and so escape limits per address and lists of addresses.
	TrustedProxies envx.Strings `env:"TRUSTED_PROXIES" envDefault:"127.0.0.0/8,::1/128,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,169.254.0.0/16,fc00::/7,fe80::/10"`
}

// Validate checks the settings.
func (c Config) Validate() error {
	if _, err := Read(c.TrustedProxies); err != nil {
		return fmt.Errorf("TRUSTED_PROXIES: %w", err)
	}
	return nil
}

// Proxies are those that the settings trust.
func (c Config) Proxies() Networks {
	if !c.TrustProxyHeaders {
		return nil
	}
	p, _ := Read(c.TrustedProxies) // Validate has read them
	return p
}

// Networks are blocks of addresses.
type Networks []netip.Prefix

// Read reads networks such as 10.0.0.0/8, and single addresses. An IPv4 network may be written in IPv6's way.
func Read(list []string) (p Networks, err error) {
	var errs []error
	for _, text := range list {
		prefix, err := netip.ParsePrefix(text)
		if address, alone := netip.ParseAddr(text); alone == nil {
			prefix, err = address.Prefix(address.BitLen())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%q is neither a network, such as 10.0.0.0/8, nor an address", text))
			continue
		}
		p = append(p, prefix.Masked())
	}
	return p, errors.Join(errs...)
}

// Have reports whether an address is in one of the networks.
func (p Networks) Have(address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(address) })
}

// Of returns the client's address as text. It is the socket's address, unless that is a trusted proxy,
// which names its client in X-Forwarded-For or Forwarded (RFC 7239). Each proxy adds an element on the right, and
// a client can send any list. So the client is the first one from the right that is not a trusted proxy.
func Of(h http.Header, remote string, trusted Networks) string {
	if len(trusted) == 0 {
		return socketIP(remote)
	}
	list, name := "", ""
	for _, name = range [...]string{"X-Forwarded-For", "Forwarded"} {
		if lines := h[name]; len(lines) > 0 {
			list = lines[len(lines)-1]
			break
		}
	}
	const longest = 1000
	if list == "" || len(list) > longest {
		return socketIP(remote)
	}
	client, err := netip.ParseAddrPort(remote)
	if err != nil || !trusted.Have(client.Addr()) {
		return socketIP(remote)
	}
	return forwardedIP(list, name == "Forwarded", client.Addr(), trusted)
}

// forwardedIP goes from the proxy that is connected towards the client.
func forwardedIP(list string, named bool, proxy netip.Addr, trusted Networks) string {
	for nearest := proxy; ; {
		before, last, more := cutLast(list)
		if named {
			last = forElement(last)
		}
		address, ok := parseIP(last)
		switch {
		case !ok: // the element is unreadable: this proxy is the last known address
			return textOf(nearest)
		case !more || !trusted.Have(address):
			return textOf(address)
		}
		list, nearest = before, address
	}
}

func cutLast(list string) (before, last string, more bool) {
	i := strings.LastIndexByte(list, ',')
	if i < 0 {
		return "", list, false
	}
	return list[:i], list[i+1:], true
}

// forElement returns what an element of Forwarded says of the client.
func forElement(element string) string {
	for pair := range strings.SplitSeq(element, ";") {
		name, value, _ := strings.Cut(pair, "=")
		if strings.EqualFold(strings.TrimSpace(name), "for") {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return ""
}

func textOf(address netip.Addr) string { return address.WithZone("").Unmap().String() }

// socketIP strips the port, and the brackets of IPv6.
func socketIP(remote string) string {
	i := strings.LastIndexByte(remote, ':')
	if i < 0 {
		return remote
	}
	return strings.TrimSuffix(strings.TrimPrefix(remote[:i], "["), "]")
}

// parseIP reads an address with or without port and brackets.
func parseIP(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if ap, err := netip.ParseAddrPort(text); err == nil {
		return ap.Addr(), true
	}
	address, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	return address, err == nil
}
