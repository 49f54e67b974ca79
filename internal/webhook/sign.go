package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	"lockstep/internal/secret"
)

const (
	secretPrefix = "whsec_"
	secretBytes  = 32
	minSecret    = 24 // bytes, as Standard Webhooks asks for
	maxSecret    = 64
)

// errSecret does not show the secret.
var errSecret = errors.New("a webhook's secret is whsec_ and 24 to 64 bytes in base64")

// NewSecret draws a secret.
func NewSecret() secret.String {
	key := make([]byte, secretBytes)
	_, _ = rand.Read(key) // never fails
	return secret.String(secretPrefix + base64.StdEncoding.EncodeToString(key))
}

// CheckSecret reports whether a secret has the right form.
func CheckSecret(s secret.String) error {
	_, err := keyOf(s)
	return err
}

func keyOf(s secret.String) ([]byte, error) {
	text, ok := strings.CutPrefix(s.Reveal(), secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(key) < minSecret || len(key) > maxSecret {
		return nil, errSecret
	}
	return key, nil
}

// Sign returns the value of webhook-signature: one signature for each secret.
func Sign(secrets []secret.String, id string, at time.Time, body []byte) (string, error) {
	if len(secrets) == 0 {
		return "", errSecret
	}
	signatures := make([]string, 0, len(secrets))
	for _, s := range secrets {
		key, err := keyOf(s)
		if err != nil {
			return "", err
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		mac.Write(body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(signatures, " "), nil
}
