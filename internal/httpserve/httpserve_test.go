package httpserve_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"lockstep/internal/httpserve"
)

// TestUntil ends servers while a request is on its way: with time it gets its answer, without it is cut off.
func TestUntil(t *testing.T) {
	for name, drain := range map[string]time.Duration{"with time": time.Hour, "without": 0} {
		t.Run(name, func(t *testing.T) {
			arrived, closing := make(chan struct{}), make(chan struct{})
			server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				close(arrived)
				<-closing
				if drain == 0 {
					<-r.Context().Done()
				}
				_, _ = io.WriteString(w, "done")
			})}
			server.RegisterOnShutdown(func() { close(closing) })
			listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- httpserve.Until(ctx, server, listener, drain) }()
			answered := make(chan string, 1)
			go func() { answered <- get(t, "http://"+listener.Addr().String()) }()
			<-arrived
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if got, want := <-answered, map[bool]string{true: "", false: "done"}[drain == 0]; got != want {
				t.Errorf("the request was answered %q, want %q", got, want)
			}
		})
	}
	t.Run("without a port", func(t *testing.T) {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = listener.Close()
		if httpserve.Until(t.Context(), &http.Server{ReadHeaderTimeout: time.Minute}, listener, 0) == nil {
			t.Error("no error of a listener that is closed")
		}
	})
}

func get(t *testing.T, url string) string {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Error(err)
		return ""
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(response.Body)
	return string(text)
}
