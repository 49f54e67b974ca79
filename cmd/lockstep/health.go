package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const healthTimeout = 5 * time.Second

func runHealth(ctx context.Context, args []string, std streams) error {
	flags := newFlags("health", "Asks a running relay whether it is ready; exit code 0 if it is. For container health checks.", std)
	url := flags.String("url", "http://127.0.0.1:7546", "the relay's RPC `URL`")
	if err := parse(flags, args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(*url, "/")+"/health/readiness", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: HTTP status %d", response.StatusCode)
	}
	_, err = fmt.Fprintln(std.out, "ready")
	return err
}
