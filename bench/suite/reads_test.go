package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
)

func TestGoodAnswers(t *testing.T) {
	const good = `{"result":"0x12a","jsonrpc":"2.0","id":1}`
	answer := func(status, body string) string {
		return "HTTP/1.1 " + status + "\r\nDate: now\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
	}
	tests := map[string]struct {
		text  string
		calls int
		err   string
	}{
		"a result":          {answer("200 OK", good), 1, ""},
		"a batch":           {answer("200 OK", "["+good+","+good+"]"), 2, ""},
		"no batch":          {answer("200 OK", good), 2, "not a batch"},
		"null":              {answer("200 OK", `{"result":null,"id":1}`), 1, "null"},
		"an error":          {answer("200 OK", `{"error":{"code":-1},"id":1}`), 1, "-1"},
		"an error as told":  {answer("400 Bad Request", good), 1, "status 400"},
		"no JSON":           {answer("200 OK", "oops"), 1, "oops"},
		"cut":               {answer("200 OK", good)[:60], 1, "EOF"},
		"of unknown length": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 1, "without a length"},
		"no status":         {"HTTP/1.1 none of the usual\r\n\r\n", 1, "invalid syntax"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			in := bufio.NewReaderSize(strings.NewReader(tt.text+"rest"), 4<<10)
			if name == "cut" {
				in = bufio.NewReaderSize(strings.NewReader(tt.text), 4<<10)
			}
			err := goodAnswer(in, tt.calls, reading{}.has)
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
	var ready naiveReady
	if err := json.NewDecoder(out).Decode(&ready); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	counts := make(chan int, 2000)
	q := reading{relay: &relay{url: ready.URL, naive: true}, connections: 8, requests: 1000, body: func(i int) string {
		counts <- i
		return ask("eth_chainId")
	}}
	done, err := q.run(t.Context(), func() {})
	close(counts)
	seen := map[int]bool{}
	for i := range counts {
		seen[i] = true
	}
	if err != nil || done != 1000 || len(seen) != 1000 {
		t.Errorf("%d answers to %d requests: %v", done, len(seen), err)
	}
	failure := errors.New("beside the load")
	q.body = func(int) string { return ask("eth_chainId") }
	q.during = func(context.Context) error { return failure }
	if _, err := q.run(t.Context(), func() {}); !errors.Is(err, failure) {
		t.Errorf("what went wrong beside the load: %v", err)
	}
	q.during, q.calls = nil, 2
	if _, err := q.run(t.Context(), func() {}); err == nil || !strings.Contains(err.Error(), "not a batch") {
		t.Errorf("an answer that is none: %v", err)
	}
}
