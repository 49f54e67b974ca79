package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/proctest"
	"lockstep/internal/sleep"
)

// What strangers may do to the console, which has no port of its own towards them: reach it through a proxy that somebody put in
// front of it, or have an operator's page decode what they have sent.

// withConsole gives the relay a console.
func withConsole(_ context.Context, l *lab) (settings []string, end func(), err error) {
	port, release, err := proctest.KeepPort()
	l.console = fmt.Sprintf("127.0.0.1:%d", port)
	return []string{"ADMIN_ADDRESS=" + l.console, "ENABLE_NONCE_ORDERING=true"}, release, err
}

// behindProxy gives it one without a token of its own, behind a proxy that says nothing of whom it speaks for, as a bare proxy_pass does: to the
// console all its requests come from loopback and name loopback as their host.
func behindProxy(ctx context.Context, l *lab) (settings []string, end func(), err error) {
	settings, release, err := withConsole(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	target := &url.URL{Scheme: "http", Host: l.console}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	proxy := &http.Server{
		Handler: &httputil.ReverseProxy{
			Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(target) },
			ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // of requests that the attack gave up
		},
		ReadHeaderTimeout: time.Minute,
	}
	go func() { _ = proxy.Serve(listener) }() // it ends with Close
	l.console = listener.Addr().String()
	return settings, func() { _ = proxy.Close(); release() }, nil
}

// askConsole asks for everything that the console can do. None of it may be answered.
func askConsole(ctx context.Context, c *client) {
	for ctx.Err() == nil {
		for _, what := range [][2]string{
			{"PUT /ordering", `{"enabled":false}`},
			{"POST /reload", ""},
			{"GET /locks", ""},
			{"GET /ordering", ""},
			{"GET /debug/pprof/heap", ""},
			{"GET /ui/events", ""},
			{"POST /ui/rpc", call("eth_chainId")},
			{"POST /ui/decode", `{}`},
			{"POST /locks/" + victim + "/release", ""},
		} {
			method, path, _ := strings.Cut(what[0], " ")
			switch status, err := c.console(ctx, method, path, what[1], ""); {
			case err != nil:
				sleep.For(ctx, 10*time.Millisecond)
			case status < http.StatusBadRequest:
				c.answered.Add(1)
				c.wrong("a stranger's %s was answered with %d", what[0], status)
			default:
				c.refused.Add(1)
			}
		}
	}
}

// console sends the console a request and returns the status.
func (c *client) console(ctx context.Context, method, path, body, token string) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+c.lab.console+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<20))
	return response.StatusCode, errors.Join(err, response.Body.Close())
}

const consoleToken = "attack"

// decodeBombs has an operator's page decode call data in which small arrays contain each other: a few kilobytes that name three
// million values.
func decodeBombs(ctx context.Context, c *client) {
	const depth, width = 5, 20
	kind := "uint256" + strings.Repeat("[]", depth)
	data := slices.Concat(crypto.Keccak256([]byte("f(" + kind + ")"))[:4], word(common.HashLength))
	for level := range depth {
		data = append(data, word(width)...)
		for i := range width {
			if level == depth-1 {
				data = append(data, word(i)...)
			} else {
				data = append(data, word(width*common.HashLength)...) // all begin behind the last offset
			}
		}
	}
	body := fmt.Sprintf(`{"abi":[{"type":"function","name":"f","inputs":[{"name":"x","type":%q}]}],"call":"0x%x"}`, kind, data)
	for ctx.Err() == nil {
		status, err := c.console(ctx, http.MethodPost, "/ui/decode", body, consoleToken)
		switch {
		case err != nil:
			sleep.For(ctx, 10*time.Millisecond)
		case status == http.StatusOK:
			c.answered.Add(1)
		default:
			c.refused.Add(1)
		}
	}
}

func word(n int) []byte { return common.BigToHash(big.NewInt(int64(n))).Bytes() }
