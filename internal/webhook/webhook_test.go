package webhook

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"lockstep/internal/must"
	"lockstep/internal/secret"
	"lockstep/internal/sleep"
)

func sender(t *testing.T, networks ...string) *Sender {
	t.Helper()
	guard := must.Get(NewGuard(networks))(t)
	s := NewSender(guard, 2*time.Minute, "lockstep test")
	t.Cleanup(s.Close)
	return s
}

// The reference library of Standard Webhooks accepts what we sign, under either secret
// while one is rotated, and nothing else.
func TestReferenceLibraryAcceptsOurSignatures(t *testing.T) {
	older, newer, stranger := NewSecret(), NewSecret(), NewSecret()
	accepts := func(key secret.String, body []byte, header http.Header) bool {
		hook := must.Get(standard.NewWebhook(key.Reveal()))(t)
		return hook.Verify(body, header) == nil
	}
	seen := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for key, want := range map[secret.String]bool{older: true, newer: true, stranger: false} {
			if accepts(key, body, r.Header) != want {
				t.Errorf("accepted: %v, want %v", !want, want)
			}
		}
		if accepts(newer, append(body, ' '), r.Header) {
			t.Error("another body is accepted")
		}
		r.Header.Set("webhook-id", "other")
		if accepts(newer, body, r.Header) {
			t.Error("another id is accepted")
		}
		seen <- struct{}{}
	}))
	defer server.Close()
	status, err := sender(t, "127.0.0.0/8").Send(t.Context(), Message{ID: "msg_1", URL: server.URL, Secrets: []secret.String{newer, older}, Body: []byte(`{"a":1}`)})
	if err != nil || status != http.StatusOK {
		t.Fatal(status, err)
	}
	<-seen
}

func TestSecrets(t *testing.T) {
	for _, bad := range []secret.String{"", "whsec_", "whsec_c2hvcnQ=", "c2hvcnQ=", "whsec_" + secret.String(strings.Repeat("!", 44)), "whsec_" + secret.String(strings.Repeat("AAAA", 30))} {
		if err := CheckSecret(bad); err == nil {
			t.Errorf("%q was accepted", bad.Reveal())
		} else if len(bad) > 8 && strings.Contains(err.Error(), bad.Reveal()[6:]) {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
	if a, b := NewSecret(), NewSecret(); a == b || CheckSecret(a) != nil {
		t.Error("NewSecret draws the same twice, or a bad one")
	}
	if _, err := Sign(nil, "id", time.Now(), nil); err == nil {
		t.Error("signed without a secret")
	}
}

func TestAddresses(t *testing.T) {
	var none Guard
	for text, want := range map[string]bool{
		"93.184.216.34": true, "2606:4700::1111": true,
		"127.0.0.1": false, "127.9.9.9": false, "10.1.2.3": false, "172.16.0.1": false, "172.32.0.1": true, "192.168.1.1": false, "169.254.169.254": false,
		"100.64.0.1": false, "100.128.0.1": true, "0.0.0.0": false, "0.1.2.3": false, "224.0.0.1": false, "255.255.255.255": false, "240.0.0.1": false, "198.18.0.1": false,
		"::": false, "::1": false, "fe80::1": false, "fe80::1%eth0": false, "fc00::1": false, "fd12::1": false, "ff02::1": false, "fec0::1": false,
		"::ffff:127.0.0.1": false, "::ffff:93.184.216.34": true, "::127.0.0.1": false, "64:ff9b::7f00:1": false, "64:ff9b::5db8:d822": true,
		"2002:7f00:1::": false, "2002:a00:1::1": false, "2001::1": false, "fd00:ec2::254": false,
	} {
		if got := none.Allows(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s allowed: %v, want %v", text, got, want)
		}
	}
	some := must.Get(NewGuard([]string{"10.0.0.0/8", "::1", "192.168.7.7"}))(t)
	for text, want := range map[string]bool{"10.1.2.3": true, "::ffff:10.1.2.3": true, "::1": true, "192.168.7.7": true, "192.168.7.8": false, "127.0.0.1": false, "93.184.216.34": true} {
		if got := some.Allows(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s allowed: %v, want %v", text, got, want)
		}
	}
	if _, err := NewGuard([]string{"inside"}); err == nil {
		t.Error("a network of no form was accepted")
	}
	if (Guard{}).Allows(netip.Addr{}) {
		t.Error("no address at all is allowed")
	}
}

func TestURLs(t *testing.T) {
	var g Guard
	for text, want := range map[string]bool{
		"https://hooks.example/x?y=1": true, "http://hooks.example:8080": true, "https://93.184.216.34/": true,
		"ftp://hooks.example": false, "//hooks.example": false, "": false, "https://": false, "https://u:p@hooks.example": false, "https://hooks.example/#x": false,
		"http://127.0.0.1/": false, "http://[::1]/": false, "http://[::ffff:10.0.0.1]/": false, "http://localhost/": false, "http://a.LOCALHOST./": false, "https://\x7f": false,
	} {
		if err := g.Check(text); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A name is judged by the address that is dialled, whatever it resolved to before; a
// redirect is no way round it.
func TestPrivateAddressIsNotDialled(t *testing.T) {
	var hits atomic.Int64
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer inside.Close()
	message := Message{ID: "m", URL: inside.URL, Secrets: []secret.String{NewSecret()}, Body: []byte(`{}`)}
	if _, err := sender(t).Send(t.Context(), message); !errors.Is(err, ErrPrivate) {
		t.Errorf("error %v", err)
	}

	// A name server that answers with a public address first and with loopback later.
	answers := rebinding(t)
	guard, _ := NewGuard(nil)
	s := NewSender(guard, 2*time.Minute, "test")
	defer s.Close()
	dialer := &net.Dialer{Control: guard.control, Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", answers.addr)
	}}}
	s.client.Transport.(*http.Transport).DialContext = dialer.DialContext
	_, port, _ := net.SplitHostPort(inside.Listener.Addr().String())
	first, err := dialer.Resolver.LookupHost(t.Context(), "hooks.example.")
	for end := time.Now().Add(2 * time.Minute); err != nil && time.Now().Before(end); { // the resolver does not wait for long
		first, err = dialer.Resolver.LookupHost(t.Context(), "hooks.example.")
	}
	answers.private.Store(true)
	if err != nil || len(first) == 0 || first[0] != "93.184.216.34" {
		t.Fatalf("the name resolves to %v, %v", first, err)
	}
	message.URL = "http://hooks.example.:" + port + "/"
	if err := guard.Check(message.URL); err != nil {
		t.Fatalf("the URL is refused before it is dialled: %v", err)
	}
	_, err = s.Send(t.Context(), message)
	for end := time.Now().Add(2 * time.Minute); err != nil && err.Error() == "the name does not resolve" && time.Now().Before(end); {
		_, err = s.Send(t.Context(), message)
	}
	if !errors.Is(err, ErrPrivate) {
		t.Errorf("error %v", err)
	}

	// A redirect is an answer like any other.
	redirect := httptest.NewServer(http.RedirectHandler(inside.URL, http.StatusTemporaryRedirect))
	defer redirect.Close()
	message.URL = redirect.URL
	var status *StatusError
	if code, err := sender(t, "127.0.0.1").Send(t.Context(), message); !errors.As(err, &status) || code != http.StatusTemporaryRedirect {
		t.Errorf("status %d, error %v", code, err)
	}
	if hits.Load() != 0 {
		t.Errorf("the private address was reached %d times", hits.Load())
	}
}

type nameServer struct {
	addr    string
	private atomic.Bool // it answers with loopback from now on
}

// rebinding is a name server whose answer changes.
func rebinding(t *testing.T) *nameServer {
	t.Helper()
	conn := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	server := &nameServer{addr: conn.LocalAddr().String()}
	var done sync.WaitGroup
	t.Cleanup(func() { conn.Close(); done.Wait() })
	done.Go(func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			question := buffer[:n]
			end := 12
			for question[end] != 0 {
				end += int(question[end]) + 1
			}
			end += 5 // the end of the name, type and class
			answer := append([]byte{question[0], question[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question[12:end]...)
			if binary.BigEndian.Uint16(question[end-4:]) == 1 { // an IPv4 address is asked for
				address := []byte{127, 0, 0, 1}
				if !server.private.Load() {
					address = []byte{93, 184, 216, 34}
				}
				answer[7] = 1
				answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
				answer = append(answer, address...)
			}
			conn.WriteTo(answer, from)
		}
	})
	return server
}

// An error tells what happened and keeps the path, in which receivers put tokens.
func TestErrorsKeepTheURL(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	s := sender(t, "127.0.0.1")
	message := Message{ID: "m", Secrets: []secret.String{NewSecret()}}
	message.URL = server.URL + "/token-1234"
	var status *StatusError
	if _, err := s.Send(t.Context(), message); !errors.As(err, &status) || status.Status != 503 || status.RetryAfter != 7*time.Second {
		t.Errorf("error %v", err)
	}
	for _, url := range []string{"http://127.0.0.1:1/token-1234", "https://" + server.Listener.Addr().String() + "/token-1234", "http://%/token-1234"} {
		message.URL = url
		if _, err := s.Send(t.Context(), message); err == nil || strings.Contains(err.Error(), "token-1234") {
			t.Errorf("error %v", err)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	message.URL = server.URL
	if _, err := s.Send(cancelled, message); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func FuzzGuardCheck(f *testing.F) {
	for _, seed := range []string{"https://hooks.example/x", "http://127.0.0.1", "http://[::ffff:7f00:1]:80/", "http://2130706433/", "http://0x7f.1/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if err := (Guard{}).Check(text); err == nil && !strings.HasPrefix(strings.ToLower(text), "http") {
			t.Errorf("%q was accepted", text)
		}
	})
}

// TestAnAnswerIsItsStatus: a receiver that has answered 200, and never ends its body, has taken the message.
func TestAnAnswerIsItsStatus(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = w.Write([]byte("."))
			_ = http.NewResponseController(w).Flush()
			sleep.For(r.Context(), 10*time.Millisecond)
		}
	}))
	defer receiver.Close()
	guard := must.Get(NewGuard([]string{"127.0.0.0/8"}))(t)
	s := NewSender(guard, time.Hour, "test")
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	status, err := s.Send(ctx, Message{ID: "m", URL: receiver.URL, Secrets: []secret.String{NewSecret()}, Body: []byte(`{}`)})
	if status != http.StatusOK || err != nil || ctx.Err() != nil {
		t.Errorf("%d, %v; the caller's time: %v", status, err, ctx.Err())
	}
}
