package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	"lockstep/internal/hedera"
)

// certificate is what a node shows to clients that speak TLS. As on the real network it is
// signed by nobody but itself; what makes it trustworthy is its hash in the address book.
type certificate struct {
	tls  tls.Certificate
	hash string // hexadecimal SHA-384 of its PEM form
}

// newCertificate makes a key and a certificate for a node at an address. SDKs connect to
// the name or address 127.0.0.1, whatever the node's own is.
func newCertificate(account hedera.ID) (*certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key of node %s: %w", account, err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(account.Num),
		Subject:      pkix.Name{CommonName: account.String()},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(10, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA:         true, BasicConstraintsValid: true,
		DNSNames:    []string{"localhost", "127.0.0.1"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("certificate of node %s: %w", account, err)
	}
	hash := sha512.Sum384(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return &certificate{
		tls:  tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		hash: hex.EncodeToString(hash[:]),
	}, nil
}

// listen wraps a listener so that its connections speak TLS.
func (c *certificate) listen(l net.Listener) net.Listener {
	return tls.NewListener(l, &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{c.tls}, NextProtos: []string{"h2"},
	})
}
