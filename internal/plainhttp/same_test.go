package plainhttp

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// variants are what clients send, well-formed and odd: what begins with a tilde is taken
// here, all else is handed over.
func variants() []string {
	const host, two = "Host: x\r\n", "Content-Length: 2\r\n"
	head := func(lines string) string { return "POST / HTTP/1.1\r\n" + lines + "\r\n" }
	list := []string{
		"~" + head(host+two) + "{}",
		"~" + head(two+host) + "{}",
		"~" + head(host+"Content-Length: 0\r\n"),
		"~" + head("hOsT: x\r\ncOnTeNt-LeNgTh: 2\r\nREQUEST-ID: a\r\n") + "{}",
		"~" + head(host+two+"Request-Id: a b\r\nRequest-Id: c\r\n") + "{}",
		"~" + head(host+two+"Request-Id:\r\n") + "{}",
		"~" + head(host+two+"Request-Id:   a   \r\n") + "{}",
		"~" + head("Host:x\r\nContent-Length:2\r\n") + "{}",
		"~" + head("Host:    x   \r\nContent-Length:   2   \r\n") + "{}",
		"~" + head(host+"Content-Length: 02\r\n") + "{}",
		"~" + head(host+"Content-Length: 000000002\r\n") + "{}",
		"~" + head("Host: [::1]:7546\r\n"+two) + "{}",
		"~" + head("Host: a_b-c.d:1\r\n"+two) + "{}",
		"~" + head(host+two+"Connection: keep-alive\r\n") + "{}",
		"~" + head(host+two+"Connection: Keep-Alive\r\nKeep-Alive: timeout=5\r\n") + "{}",
		"~" + head(host+two+"Content-Type: application/json; charset=utf-8\r\nAccept: */*\r\nUser-Agent: a/1 (b; c) \"d\"\r\n") + "{}",
		"~" + head(host+two+"!#$%&'*+-.^_`|~09aZ: x\r\n") + "{}",
		"~" + head(host+two+"Pragma: no-cache\r\nTE: trailers\r\nVia: 1.1 x\r\nKeep-Alive: 1\r\n") + "{}",
		"~" + head(host+two+"Proxy-Connection: close\r\n") + "{}",
		"~" + head(host+two+"Sec-WebSocket-Key: x\r\nOrigin: http://x\r\n") + "{}",
		"~" + head(host+two+"X-Forwarded-For: 1.2.3.4\r\nCookie: a=b; c=d\r\n") + "{}",
		"~" + head(host+"Content-Length: 5000\r\n") + strings.Repeat("x", 5000),
		"~" + head(host+fmt.Sprintf("Content-Length: %d\r\n", limitOfTests)) + strings.Repeat("x", limitOfTests),
		"~" + head(host+two+"X: "+strings.Repeat("x", 1900)+"\r\n") + "{}",
		"~" + head(host+two+strings.Repeat("X: y\r\n", 29)) + "{}",
		"~" + head(host+two) + "{}\r\n",
		"~" + head(host+two) + "{}\n\n\n",
		"~" + head(host+two) + "{}\r\n\r\n",

		head(host+two) + "{",
		head(host + two),
		head(host),
		head(two) + "{}",
		head(host+two+two) + "{}",
		head(host+two+"Content-Length: 3\r\n") + "{}",
		head(host+two+"Content-Length: 02\r\n") + "{}",
		head(host+host+two) + "{}",
		head(host+"Host: y\r\n"+two) + "{}",
		head("Host:\r\n"+two) + "{}",
		head("Host: a b\r\n"+two) + "{}",
		head("Host: a/b\r\n"+two) + "{}",
		head("Host: a@b\r\n"+two) + "{}",
		head(host+two+"Transfer-Encoding: chunked\r\n") + "2\r\n{}\r\n0\r\n\r\n",
		head(host+"Transfer-Encoding: chunked\r\n") + "2\r\n{}\r\n0\r\n\r\n",
		head(host+"Transfer-Encoding: chunked\r\nTrailer: X\r\n") + "2\r\n{}\r\n0\r\nX: y\r\n\r\n",
		head(host+"Transfer-Encoding: chunked, chunked\r\n") + "2\r\n{}\r\n0\r\n\r\n",
		head(host+"Transfer-Encoding: \x0bchunked\r\n") + "2\r\n{}\r\n0\r\n\r\n",
		head(host+"Transfer-Encoding : chunked\r\n"+two) + "{}",
		head(host+"Transfer-Encoding: identity\r\n"+two) + "{}",
		head(host+two+"Trailer: X\r\n") + "{}",
		head(host+two+"Expect: 100-continue\r\n") + "{}",
		head(host+two+"Expect: x\r\n") + "{}",
		head(host+two+"Expect:\r\n") + "{}",
		head(host+two+"Connection: close\r\n") + "{}",
		head(host+two+"Connection: Close\r\n") + "{}",
		head(host+two+"Connection: keep-alive, close\r\n") + "{}",
		head(host+two+"Connection: keep-alive\r\nConnection: close\r\n") + "{}",
		head(host+two+"Connection:\r\n") + "{}",
		head(host+two+"Connection: upgrade\r\nUpgrade: websocket\r\n") + "{}",
		head(host+two+"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: x\r\n") + "{}",
		head(host+two+"Content-Encoding: gzip\r\n") + "{}",
		head(host+two+"Content-Encoding: identity\r\n") + "{}",
		head(host+"Content-Length : 2\r\n") + "{}",
		head(host+" Content-Length: 2\r\n") + "{}",
		head(host+two+" folded\r\n") + "{}",
		head(host+two+"X: a\r\n\tfolded\r\n") + "{}",
		head(host+"Content-Length: 2\r\n 0\r\n") + "{}",
		head(host+two+"X Y: z\r\n") + "{}",
		head(host+two+"X\r\n") + "{}",
		head(host+two+": x\r\n") + "{}",
		head(host+two+"X@: y\r\n") + "{}",
		head(host+two+"X(: y\r\n") + "{}",
		head(host+two+"Ä: y\r\n") + "{}",
		head(host+two+"X: ä\r\n") + "{}",
		head(host+two+"X: a\tb\r\n") + "{}",
		head(host+two+"X:\ta\t\r\n") + "{}",
		head(host+"Content-Length:\t2\r\n") + "{}",
		head(host+two+"X: a\x00b\r\n") + "{}",
		head(host+two+"X\x00: b\r\n") + "{}",
		head(host+two+"X: a\x7fb\r\n") + "{}",
		head(host+two+"X: a\x0bb\r\n") + "{}",
		head(host+two+"X: a\rb\r\n") + "{}",
		head(host+two+"X: a\nY: b\r\n") + "{}",
		head(host+two+"\rX: b\r\n") + "{}",
		head(host+two+"X: "+strings.Repeat("x", 3000)+"\r\n") + "{}",
		head(host+two+"X: "+strings.Repeat("x", 40_000)+"\r\n") + "{}",
		head(host+two+strings.Repeat("X: y\r\n", 31)) + "{}",
		head(host+two+strings.Repeat("Longer: y\r\n", 300)) + "{}",
		head(host+fmt.Sprintf("Content-Length: %d\r\n", limitOfTests+1)) + strings.Repeat("x", limitOfTests+1),
		strings.ReplaceAll(head(host+two), "\r\n", "\n") + "{}",
		strings.ReplaceAll(head(host+two), "\r\n", "\r") + "{}",
		strings.ReplaceAll(head(host+two), "\r\n", "\r\r\n") + "{}",
		"POST / HTTP/1.1\n" + host + two + "\r\n{}",
		"POST / HTTP/1.1\r\n" + host + two + "\n{}",
		"POST / HTTP/1.1\r\nHost: x\n" + two + "\r\n{}",
		"\r\n" + head(host+two) + "{}",
		"\n" + head(host+two) + "{}",
		" " + head(host+two) + "{}",
		"", "P", "POST", "POST ", "POST /", "POST / HTTP/1.1", "POST / HTTP/1.1\r", "POST / HTTP/1.1\r\n", "\r\n", "\r\n\r\n", "\x00", "\x16\x03\x01\x00",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	}
	for _, value := range []string{
		"", "+2", "-2", "2, 2", "2,2", "2 2", "2;", "0x2", "2.0", "1e0", "٢", "'2'", "2 ", "2147483648", "4294967298",
		"9223372036854775808", "18446744073709551618", "99999999999999999999", "2\x00", "2\x0b", "\"2\"",
	} {
		mark := ""
		if value == "2 " {
			mark = "~"
		}
		list = append(list, mark+head(host+"Content-Length: "+value+"\r\n")+"{}")
	}
	for line, taken := range map[string]bool{
		"POST / HTTP/1.1": true, "POST /a/b-c_d.e~f HTTP/1.1": true, "POST /?a=b&c=%2f HTTP/1.1": true, "POST /missing HTTP/1.1": true,
		"POST // HTTP/1.1": true, "POST //x/y HTTP/1.1": true, "POST /../x HTTP/1.1": true, "POST /? HTTP/1.1": true, "POST /?? HTTP/1.1": true,
		"POST /other HTTP/1.1": false, "POST /%6fther HTTP/1.1": false, "POST /a%2fb HTTP/1.1": false, "POST /%zz HTTP/1.1": false,
		"POST /other?x HTTP/1.1": false, "POST /a#b HTTP/1.1": false, "POST /?a#b HTTP/1.1": false, "POST /a;b HTTP/1.1": false,
		"POST /\"x\" HTTP/1.1": false, "POST /ä HTTP/1.1": false, "POST /a\tb HTTP/1.1": false, "POST /\x00 HTTP/1.1": false, "POST /a\x7f HTTP/1.1": false,
		"POST http://x/ HTTP/1.1": false, "POST http://y/ HTTP/1.1": false, "POST * HTTP/1.1": false, "POST x HTTP/1.1": false, "POST x:80 HTTP/1.1": false,
		"POST  / HTTP/1.1": false, "POST /  HTTP/1.1": false, "POST / HTTP/1.1 ": false, "POST / x HTTP/1.1": false, "POST\t/\tHTTP/1.1": false,
		"POST / HTTP/1.0": false, "POST / HTTP/1.2": false, "POST / HTTP/2.0": false, "POST / HTTP/0.9": false, "POST / HTTP/1.10": false,
		"POST / http/1.1": false, "POST /": false, "POST HTTP/1.1": false, "POST  HTTP/1.1": false, " HTTP/1.1": false, "POST / HTTP/1.1x": false,
		"POST / HTTP/1,1": false, "POST / HTTP/01.1": false, "POST / HTTP/+1.1": false,
		"post / HTTP/1.1": false, "Post / HTTP/1.1": false, "POSTS / HTTP/1.1": false, "GET / HTTP/1.1": false, "PUT / HTTP/1.1": false,
		"OPTIONS / HTTP/1.1": false, "OPTIONS * HTTP/1.1": false, "HEAD / HTTP/1.1": false, "DELETE / HTTP/1.1": false, "CONNECT x:1 HTTP/1.1": false,
		"P(ST / HTTP/1.1": false,
		"POST /" + strings.Repeat("x", 3000) + " HTTP/1.1": false,
	} {
		mark := ""
		if taken {
			mark = "~"
		}
		list = append(list, mark+line+"\r\n"+host+two+"\r\n{}")
	}
	return list
}

// reference runs net/http alone.
func reference(t testing.TB) string {
	t.Helper()
	ln := listen(t)
	server := quiet(&echo{})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	t.Cleanup(func() { server.Close(); <-ended })
	return ln.Addr().String()
}

var dateField = regexp.MustCompile(`\r\nDate: [^\r]+GMT\r\n`)

// transcript is all that a server says to the pieces and the end after them.
func transcript(t testing.TB, address string, pieces ...[]byte) string {
	c := dial(t, address)
	defer c.Close()
	for _, piece := range pieces {
		if _, err := c.Write(piece); err != nil {
			break // the server wants no more
		}
	}
	_ = c.CloseWrite()
	said, err := io.ReadAll(c.in)
	if isTimeout(err) {
		t.Errorf("the server keeps the connection, having said %q", said)
	}
	return dateField.ReplaceAllString(string(said), "\r\nDate: then\r\n")
}

// TestSameAsNetHTTP: to whatever comes, alone, between plain requests or piece by piece,
// the answers and the end of the connection are those of net/http.
func TestSameAsNetHTTP(t *testing.T) {
	theirs := reference(t)
	ours := serve(t, &echo{}, nil)
	compare := func(t *testing.T, input string, pieces ...[]byte) {
		t.Helper()
		if diff := cmp.Diff(transcript(t, theirs, pieces...), transcript(t, ours.address(), pieces...)); diff != "" {
			t.Errorf("%.200q (-net/http +ours)\n%s", input, diff)
		}
	}
	probe := request("/probe", "[]")
	for _, v := range variants() {
		input, taken := strings.CutPrefix(v, "~")
		before := ours.echo.plain.Load()
		compare(t, input, []byte(input))
		if got := ours.echo.plain.Load() > before; got != taken {
			t.Errorf("%.200q: taken here: %t, want %t", input, got, taken)
		}
		for _, stream := range []string{probe + input, input + probe, probe + input + probe, input + input + probe} {
			compare(t, stream, []byte(stream))
		}
		if len(input) < 300 {
			compare(t, input, bytes.SplitAfter([]byte(probe+input+probe), nil)...)
		}
	}
}

// TestSameAtEverySplit: it makes no difference where what is sent is cut in two.
func TestSameAtEverySplit(t *testing.T) {
	ours := serve(t, &echo{}, nil)
	stream := []byte(request("/a", "one") + request("/b", "") + request("/missing", "three") + "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	want := transcript(t, reference(t), stream)
	for i := range stream {
		if diff := cmp.Diff(want, transcript(t, ours.address(), stream[:i], stream[i:])); diff != "" {
			t.Errorf("cut at %d (-net/http +ours)\n%s", i, diff)
		}
	}
}

// FuzzSameAsNetHTTP is TestSameAsNetHTTP for anything.
func FuzzSameAsNetHTTP(f *testing.F) {
	for _, v := range variants() {
		if input := strings.TrimPrefix(v, "~"); len(input) < 3000 {
			f.Add([]byte(input), []byte(request("/probe", "[]")))
		}
	}
	theirs, ours := reference(f), serve(f, &echo{}, nil).address()
	f.Fuzz(func(t *testing.T, first, second []byte) {
		if diff := cmp.Diff(transcript(t, theirs, first, second), transcript(t, ours, first, second)); diff != "" {
			t.Errorf("(-net/http +ours)\n%s", diff)
		}
	})
}
