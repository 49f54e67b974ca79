package consensus

import (
	"bytes"
	"crypto/sha512"
	"crypto/tls"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"google.golang.org/grpc/credentials"

	"lockstep/internal/hedera"
)

// pinnedCredentials is TLS to a node. Nodes sign their own certificates, so there
// is no chain to check: the network's address book has the SHA-384 of the
// certificate in PEM form, and that is compared. Without a hash any certificate is
// taken: the connection is encrypted, but who is at its end is not known.
//
// A certificate that is not the one is logged once: the client is told no more than that
// no node could be reached.
func pinnedCredentials(id hedera.ID, hash []byte, log *slog.Logger) credentials.TransportCredentials {
	var once sync.Once
	return credentials.NewTLS(&tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // replaced by VerifyConnection
		VerifyConnection: func(state tls.ConnectionState) error {
			if hash == nil {
				return nil
			}
			err := verifyCertHash(id, state, hash)
			if err != nil {
				once.Do(func() {
					log.Warn("a consensus node is not trusted and nothing is sent to it", "node", id.String(), "error", err)
				})
			}
			return err
		},
	})
}

func verifyCertHash(id hedera.ID, state tls.ConnectionState, want []byte) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the node showed no certificate")
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: state.PeerCertificates[0].Raw})
	if got := sha512.Sum384(text); !bytes.Equal(got[:], want) {
		return fmt.Errorf("the certificate of node %s has SHA-384 %s, not the one in the address book",
			id, hex.EncodeToString(got[:]))
	}
	return nil
}
