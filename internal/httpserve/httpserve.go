// Package httpserve runs a server of package net/http for as long as a context lasts.
package httpserve

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// Until answers on the listener until ctx ends, and closes the listener. The requests that are on their way then have as long as drain; what
// is left of them is cut off. The error is nil if it was the context that ended it.
//
// Streams that never end by themselves hear of the end through [http.Server.RegisterOnShutdown].
func Until(ctx context.Context, server *http.Server, listener net.Listener, drain time.Duration) error {
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if server.Shutdown(last) != nil {
		_ = server.Close() // they had their time
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
