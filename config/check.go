package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"lockstep/internal/redisx"
)

// ErrNoAdminToken means that anybody who can reach the console could switch the relay.
var ErrNoAdminToken = errors.New("ADMIN_ADDRESS is not on loopback: that needs ADMIN_TOKEN")

// checkAdmin refuses an address of the console that cannot be listened on, or not without a token. What address a
// name has is not asked here.
func (s Server) checkAdmin() error {
	if s.AdminAddress == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(s.AdminAddress)
	if n, wrong := strconv.Atoi(port); err != nil || wrong == nil && (n < 0 || n > 65535) {
		return fmt.Errorf("ADMIN_ADDRESS: want host:port, such as 127.0.0.1:7547, is %q", s.AdminAddress)
	}
	address, err := netip.ParseAddr(host)
	if s.AdminToken == "" && (host == "" || err == nil && !address.Unmap().IsLoopback()) {
		return ErrNoAdminToken
	}
	return nil
}

// check reads the URLs that are going to be used.
func (r Redis) check() error {
	if !r.Enabled {
		if r.LockURL != "" {
			return errors.New("LOCK_REDIS_URL needs REDIS_ENABLED=true")
		}
		return nil
	}
	var errs []error
	if _, err := redisx.Parse(r.URL.Reveal()); err != nil {
		errs = append(errs, fmt.Errorf("REDIS_URL: %w", err))
	}
	if r.LockURL != "" {
		if _, err := redisx.Parse(r.LockURL.Reveal()); err != nil {
			errs = append(errs, fmt.Errorf("LOCK_REDIS_URL: %w", err))
		}
	}
	return errors.Join(errs...)
}
