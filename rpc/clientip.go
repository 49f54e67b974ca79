package rpc

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// proxies are the networks of trusted proxies: what they say of their client is believed.
type proxies []netip.Prefix

// readProxies reads networks as 10.0.0.0/8, or as the address of one proxy.
func readProxies(list []string) (p proxies, err error) {
	var errs []error
	for _, text := range list {
		prefix, err := netip.ParsePrefix(text)
		if address, alone := netip.ParseAddr(text); alone == nil {
			prefix, err = address.Prefix(address.BitLen())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("TRUSTED_PROXIES: %q is neither a network, such as 10.0.0.0/8, nor an address", text))
			continue
		}
		p = append(p, prefix.Masked())
	}
	return p, errors.Join(errs...)
}

// proxies are those that the settings trust.
func (c *Config) proxies() proxies {
	if !c.TrustProxyHeaders {
		return nil
	}
	p, _ := readProxies(c.TrustedProxies) // Validate has read them
	return p
}

func (p proxies) have(address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	for _, network := range p {
		if network.Contains(address) {
			return true
		}
	}
	return false
}

// clientIP returns the client's address as text. It is the socket's address, unless that is a trusted proxy,
// which names its client in X-Forwarded-For or Forwarded (RFC 7239). Each proxy adds an element on the right, and
// a client can send any list. So the client is the first one from the right that is not a trusted proxy.
func clientIP(h http.Header, remote string, trusted proxies) string {
	if len(trusted) == 0 {
		return socketIP(remote)
	}
	list, name := "", ""
	for _, name = range [...]string{"X-Forwarded-For", "Forwarded"} {
		if text, ok := last(h, name); ok {
			list = text
			break
		}
	}
	const longest = 1000
	if list == "" || len(list) > longest {
		return socketIP(remote)
	}
	client, err := netip.ParseAddrPort(remote)
	if err != nil || !trusted.have(client.Addr()) {
		return socketIP(remote)
	}
	return forwardedIP(list, name == "Forwarded", client.Addr(), trusted)
}

// forwardedIP goes from the proxy that is connected towards the client.
func forwardedIP(list string, named bool, proxy netip.Addr, trusted proxies) string {
	for nearest := proxy; ; {
		before, last, more := cutLast(list)
		if named {
			last = forElement(last)
		}
		address, ok := parseIP(last)
		switch {
		case !ok: // the element is unreadable: this proxy is the last known address
			return textOf(nearest)
		case !more || !trusted.have(address):
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
