package redisx_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/must"
	"lockstep/internal/proctest"
	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		url  string
		want redisx.Target
	}{
		{"redis://localhost", redisx.Target{Kind: redisx.Single, Network: "tcp", Addrs: []string{"localhost:6379"}}},
		{"redis://:p%40ss@h:7000/3", redisx.Target{Kind: redisx.Single, Network: "tcp", Addrs: []string{"h:7000"}, Password: "p@ss", DB: 3}},
		{"rediss://u:p@h:1", redisx.Target{Kind: redisx.Single, TLS: true, Network: "tcp", Addrs: []string{"h:1"}, Username: "u", Password: "p"}},
		{"redis://[::1]:7000", redisx.Target{Kind: redisx.Single, Network: "tcp", Addrs: []string{"[::1]:7000"}}},
		{"redis://[::1]", redisx.Target{Kind: redisx.Single, Network: "tcp", Addrs: []string{"[::1]:6379"}}},
		{"redis://h?db=4", redisx.Target{Kind: redisx.Single, Network: "tcp", Addrs: []string{"h:6379"}, DB: 4}},
		{"redis+sentinel://:p@a,b:1/main/2?sentinel_password=q", redisx.Target{
			Kind: redisx.Sentinel, Network: "tcp", Addrs: []string{"a:26379", "b:1"}, Master: "main", DB: 2, Password: "p", SentinelPassword: "q",
		}},
		{"redis+cluster://a:1,b,[::1]:3", redisx.Target{Kind: redisx.Cluster, Network: "tcp", Addrs: []string{"a:1", "b:6379", "[::1]:3"}}},
		{"unix:///run/redis.sock?db=1", redisx.Target{Kind: redisx.Single, Network: "unix", Addrs: []string{"/run/redis.sock"}, DB: 1}},
	} {
		got, err := redisx.Parse(tc.url)
		if err != nil {
			t.Errorf("%s: %v", tc.url, err)
		} else if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.url, diff)
		}
	}
}

func TestErrorsHideThePassword(t *testing.T) {
	for _, url := range []string{
		"", "hunter2", "http://u:hunter2@h", "redis://u:hunter2@", "redis://u:hunter2@h:port", "redis://u:hunter2@h:0",
		"redis://hunter2@h", "redis://:hunter2%zz@h", "redis://u:hunter2@h/x", "redis://u:hunter2@h:1:2", "redis://u:hunter2@a,,b",
		"redis+sentinel://u:hunter2@h", "redis+cluster://u:hunter2@h/1", "redis://u:hunter2@h?%zz=hunter2", "unix://u:hunter2@/x@y",
		"redis://h:99999/hunter2", "redis://u:hun/ter2@h",
	} {
		got, err := redisx.Parse(url)
		if err == nil && !strings.HasPrefix(url, "unix://u:") {
			t.Errorf("%s: accepted as %v", url, got)
			continue
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error shows the password: %v", url, err)
		}
	}
}

func TestTargetHidesThePassword(t *testing.T) {
	target := must.Get(redisx.Parse("redis+sentinel://u:hunter2@h/m?sentinel_password=hunter2"))(t)
	if s := fmt.Sprintf("%v %+v %#v %s %v", target, target, target, target, &target); strings.Contains(s, "hunter2") {
		t.Error(s)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"redis://localhost", "rediss://u:p@h:1/2", "redis+sentinel://a,b/m/1", "redis+cluster://a:1,[::1]:2", "unix:///s?db=1",
		"redis://:SECRETSECRET@h:bad", "redis://@:@,/?", "redis://[", "redis://[]:1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		target, err := redisx.Parse(s)
		if err != nil {
			return
		}
		if len(target.Addrs) == 0 || target.DB < 0 || (target.Kind == redisx.Sentinel) != (target.Master != "") {
			t.Fatalf("%q: half a target: %#v", s, target)
		}
		if target.Network == "tcp" {
			for _, a := range target.Addrs {
				if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "" {
					t.Fatalf("%q: address %q: %v", s, a, err)
				}
			}
		}
		// Making the client must not panic, and connects nowhere.
		must.Do(t, redisx.New(target, redisx.Options{}).Close())
	})
}

func TestAnswersInTimeCountWhenSeenLate(t *testing.T) {
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = ln.Close() }()
	raw := must.Get(net.Dial("tcp", ln.Addr().String()))(t)
	server := must.Get(ln.Accept())(t)
	defer func() { _, _ = raw.Close(), server.Close() }()
	client := redisx.Patient(raw)
	past := time.Now().Add(-time.Hour)

	must.Do(t, client.SetReadDeadline(past))
	b := make([]byte, 10)
	if n, err := client.Read(b); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("with nothing to read: %d, %v", n, err)
	}
	for range 2000 { // this process may be late at any step of a look
		must.Get(server.Write([]byte("+OK\r\n")))(t)
		must.Do(t, client.SetReadDeadline(time.Time{}))
		if _, err := client.Read(b[:1]); err != nil { // now the rest has arrived, too
			t.Fatal(err)
		}
		must.Do(t, client.SetReadDeadline(past))
		if n, err := client.Read(b); err != nil || string(b[:n]) != "OK\r\n" {
			t.Fatalf("what had arrived: %q, %v", b[:n], err)
		}
	}
}

// A real server that speaks nothing but TLS.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := selfSigned(t, dir)
	t.Setenv("SSL_CERT_FILE", cert) // read once in a process, at its first use
	port := strconv.Itoa(proctest.FreePort(t))
	redistest.Start(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert, "--tls-auth-clients", "no")
	for host, trusted := range map[string]bool{"127.0.0.1": true, "localhost": false} {
		client, err := redisx.Open("rediss://"+net.JoinHostPort(host, port), generous)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Close() }()
		err = client.Set(t.Context(), "k", "v", 0).Err()
		var wrongName x509.HostnameError
		if trusted && err != nil || !trusted && !errors.As(err, &wrongName) {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// selfSigned writes a certificate for 127.0.0.1, and only that, and its key.
func selfSigned(t *testing.T, dir string) (certFile, keyFile string) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	secret := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		must.Do(t, os.WriteFile(name, pem.EncodeToMemory(block), 0o600))
	}
	return certFile, keyFile
}

// The relays of a fleet share a quota; a window takes half of it, and the next one half again.
func TestQuota(t *testing.T) {
	server := redistest.Start(t)
	// A window of half a century does not end while this runs.
	const life = 50 * 365 * 24 * time.Hour
	one, other := redisx.NewQuota("q", 2_000_000, life), redisx.NewQuota("q", 2_000_000, life)
	take := func(q *redisx.Quota, bytes int, want bool) {
		t.Helper()
		if got := q.Take(bytes); got != want {
			t.Errorf("%d bytes: %v", bytes, got)
		}
		must.Do(t, q.Settle(t.Context(), server.Client()))
	}
	take(one, 600_000, true)
	take(other, 300_000, true) // and now it knows of the other's
	take(other, 200_000, false)
	take(other, 100_000, true)
	take(one, 1_000_001, false)
	keys := server.Client().Keys(t.Context(), "lockstep:bytes:q:*").Val()
	if len(keys) != 1 {
		t.Fatalf("in Redis: %v", keys)
	}
	if sum := server.Client().Get(t.Context(), keys[0]).Val(); sum != "900000" && sum != "1000000" { // the last 100,000 may be told later
		t.Errorf("in Redis: %s", sum)
	}
	if ttl := server.Client().TTL(t.Context(), keys[0]).Val(); ttl <= life || ttl > 2*life {
		t.Errorf("the sum lives for %s", ttl)
	}
}

// A window is over when what was written in it has had its time; without a time there is one
// window, which has all.
func TestQuotaWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, forever := redisx.NewQuota("q", 200, time.Minute), redisx.NewQuota("q", 200, 0)
		first := q.Window()
		for i := range 3 {
			if got := q.Window() - first; got != int64(i) || forever.Window() != 0 {
				t.Errorf("after %d minutes: %d windows later", i, got)
			}
			if !q.Take(100) || q.Take(1) {
				t.Error("a window does not have half of the bytes")
			}
			time.Sleep(time.Minute) //nolint:forbidigo // fake time
		}
		if !forever.Take(200) || forever.Take(1) {
			t.Error("without a time: not all of the bytes")
		}
	})
}

// listener hears words on a channel of its own connection.
type listener struct {
	*redisx.Hints
	words   chan string
	changes chan error
}

func listen(t *testing.T, url, channel string) *listener {
	t.Helper()
	l := &listener{words: make(chan string, 100), changes: make(chan error, 100)}
	var err error
	if l.Hints, err = redisx.NewHints(url, channel, func(err error) { l.changes <- err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	must.Run(t, func(ctx context.Context) error {
		l.Listen(ctx, func(word string) { l.words <- word })
		return nil
	})
	return l
}

// hears waits for words, in their order.
func (l *listener) hears(t *testing.T, words ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), must.Patience)
	defer cancel()
	for _, want := range words {
		select {
		case got := <-l.words:
			if got != want {
				t.Fatalf("heard %q, want %q", got, want)
			}
		case <-ctx.Done():
			t.Fatalf("%q was never heard", want)
		}
	}
}

// TestHints: whoever listens on a channel hears its words and no others. FLUSHALL and a Redis that
// is short of memory change nothing; a crash of Redis is told, and that words may have been lost.
func TestHints(t *testing.T) {
	server := redistest.Start(t)
	a, b, other := listen(t, server.URL(), "a"), listen(t, server.URL(), "a"), listen(t, server.URL(), "b")
	tell := func(word string) {
		t.Helper()
		must.Do(t, a.Tell(t.Context(), word))
	}
	for _, l := range []*listener{a, b, other} {
		l.hears(t, "")
	}
	tell("one")
	must.Do(t, server.Client().FlushAll(t.Context()).Err())
	tell("two")
	must.Do(t, server.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
	tell("three")
	if keys := server.Client().DBSize(t.Context()).Val(); keys != 0 {
		t.Errorf("Redis keeps %d keys", keys)
	}
	for _, l := range []*listener{a, b} {
		l.hears(t, "one", "two", "three")
	}
	server.Kill()
	if err := <-b.changes; err == nil {
		t.Error("the crash was told as a recovery")
	}
	if err := a.Tell(t.Context(), "lost"); err == nil {
		t.Error("a word was told to nobody")
	}
	server.Restart()
	if err := <-b.changes; err != nil {
		t.Errorf("the recovery was told as %v", err)
	}
	b.hears(t, "")
	must.Until(t, "words are told again", func() bool { return b.Tell(t.Context(), "four") == nil })
	b.hears(t, "four")
	select {
	case word := <-other.words:
		if word != "" { // it heard of the crash
			t.Errorf("another channel's listener heard %q", word)
		}
	default:
	}
}

// A URL that cannot be read is refused without showing it.
func TestHintsURL(t *testing.T) {
	if _, err := redisx.NewHints("redis://word@127.0.0.1", "a", nil); err == nil {
		t.Error("it was taken")
	}
}

var generous = redisx.Options{Timeout: must.Patience}
