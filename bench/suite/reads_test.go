package main

import (
	"bufio"
	"context"
	"io"
	"strconv"
	"strings"
	"testing"

	"lockstep/internal/must"
)

func TestAnswers(t *testing.T) {
	const good = `{"result":"0x12a","jsonrpc":"2.0","id":1}`
	for name, tt := range map[string]struct {
		status, body string
		batch        int
		err          string
	}{
		"a result":         {"200 OK", good, 0, ""},
		"a batch":          {"200 OK", "[" + good + "," + good + "]", 2, ""},
		"no batch":         {"200 OK", good, 2, good},
		"null":             {"200 OK", `{"result":null,"id":1}`, 0, "null"},
		"an error":         {"200 OK", `{"error":{"code":-1},"id":1}`, 0, "-1"},
		"an error as told": {"400 Bad Request", good, 0, "status 400"},
		"no JSON":          {"200 OK", "oops", 0, "oops"},
	} {
		t.Run(name, func(t *testing.T) {
			text := "HTTP/1.1 " + tt.status + "\r\nContent-Length: " + strconv.Itoa(len(tt.body)) + "\r\n\r\n" + tt.body
			in := bufio.NewReader(strings.NewReader(text + "rest"))
			err := readCase{batch: tt.batch}.answer(in)
			if tt.err == "" {
				rest, _ := io.ReadAll(in)
				if err != nil || string(rest) != "rest" {
					t.Errorf("%v, then %q", err, rest)
				}
			} else if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%v, want an error with %q", err, tt.err)
			}
		})
	}
}

// A load asks for every index once, and ends with its keys, its time, or an error.
func TestReading(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- echoRole(ctx, in) }()
	at := must.Get(bufio.NewReader(out).ReadString('\n'))(t)
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	counts := make(chan int, 2000)
	c := readCase{requests: 1000, body: func(_ *archive, i int) string {
		counts <- i
		return ask("eth_chainId")
	}}
	done, err := c.run(t.Context(), strings.TrimSpace(at), nil, 8)
	close(counts)
	seen := map[int]bool{}
	for i := range counts {
		seen[i] = true
	}
	if err != nil || done != 1000 || len(seen) != 1000 {
		t.Errorf("%d answers to %d requests: %v", done, len(seen), err)
	}
	c.body, c.batch = chainID.body, 2
	if _, err := c.run(t.Context(), strings.TrimSpace(at), nil, 8); err == nil || !strings.Contains(err.Error(), "status 200") {
		t.Errorf("an answer that is none: %v", err)
	}
}
