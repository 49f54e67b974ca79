package redisx_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"lockstep/internal/must"
	"lockstep/internal/proctest"
	"lockstep/internal/redistest"
	"lockstep/internal/redisx"
)

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
