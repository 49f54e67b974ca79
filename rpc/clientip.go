package rpc

import (
	"net/netip"
	"strings"
)

// clientIP returns the client's address as text. Proxy headers count only if they
// hold a real address; without a usable one it is the socket's.
func clientIP(h header, remote string, trustProxy bool) string {
	if trustProxy {
		if ip, ok := forwardedIP(h); ok {
			return ip
		}
	}
	return socketIP(remote)
}

// socketIP strips the port, and the brackets of IPv6.
func socketIP(remote string) string {
	i := strings.LastIndexByte(remote, ':')
	if i < 0 {
		return remote
	}
	return strings.TrimSuffix(strings.TrimPrefix(remote[:i], "["), "]")
}

// forwardedIP reads the left-most entry of X-Forwarded-For, else of Forwarded
// (RFC 7239).
func forwardedIP(h header) (string, bool) {
	const longest = 1000
	if list, ok := h.First("X-Forwarded-For"); ok && len(list) <= longest {
		first, _, _ := strings.Cut(list, ",")
		return parseIP(first)
	}
	if list, ok := h.First("Forwarded"); ok && len(list) <= longest {
		first, _, _ := strings.Cut(list, ",")
		for pair := range strings.SplitSeq(first, ";") {
			name, value, _ := strings.Cut(pair, "=")
			if strings.EqualFold(strings.TrimSpace(name), "for") {
				return parseIP(strings.Trim(strings.TrimSpace(value), `"`))
			}
		}
	}
	return "", false
}

// parseIP reads an address with or without port and brackets.
func parseIP(text string) (string, bool) {
	text = strings.TrimSpace(text)
	if ap, err := netip.ParseAddrPort(text); err == nil {
		return ap.Addr().WithZone("").Unmap().String(), true
	}
	text = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	a, err := netip.ParseAddr(text)
	if err != nil {
		return "", false
	}
	return a.WithZone("").Unmap().String(), true
}
