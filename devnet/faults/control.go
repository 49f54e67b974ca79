package faults

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"lockstep/internal/httpserve"
)

const (
	maxText     = 1 << 20 // bytes of rules
	readTimeout = 10 * time.Second
)

// ServeHTTP is the control port: GET, PUT and DELETE of /faults.
func (r *Rules) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.URL.Path != "/faults" {
		http.NotFound(w, request)
		return
	}
	if host, _, err := net.SplitHostPort(request.Host); err != nil || !loopback(host) {
		http.Error(w, "the control port is for this machine", http.StatusForbidden) // a browser that was led here by a name
		return
	}
	text := []byte("[]")
	switch request.Method {
	case http.MethodGet:
		r.answer(w)
		return
	case http.MethodDelete:
	case http.MethodPut:
		var err error
		if text, err = io.ReadAll(http.MaxBytesReader(w, request.Body, maxText)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	default:
		w.Header().Set("Allow", "GET, PUT, DELETE")
		http.Error(w, "GET, PUT or DELETE", http.StatusMethodNotAllowed)
		return
	}
	if err := r.Set(text); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.answer(w)
}

func (r *Rules) answer(w http.ResponseWriter) {
	text, err := r.JSON()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // a client that went away is its own affair
}

// Listen opens the control port. Only loopback addresses are taken: whoever can reach it
// can break the network.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("control address %q: %w", address, err)
	}
	if !loopback(host) {
		return nil, fmt.Errorf("control address %q: only loopback addresses are allowed", address)
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", address)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Serve answers on the control port until ctx ends.
func (r *Rules) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: r, ReadTimeout: readTimeout, WriteTimeout: readTimeout}
	if err := httpserve.Until(ctx, server, l, 0); err != nil {
		return fmt.Errorf("control port: %w", err)
	}
	return nil
}
