package signers

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/hashicorp/vault/api"
)

// vault opens the keys in a transit engine of Vault.
//
// The engine that Vault brings has no secp256k1 keys; engines with the same API have
// them. A key of another curve is refused by name at start.
func (c Config) vault(ctx context.Context) ([]Signer, error) {
	if len(c.VaultKeys) == 0 {
		return nil, nil
	}
	settings := api.DefaultConfig() // reads VAULT_ADDR and the others
	if settings.Error != nil {
		return nil, fmt.Errorf("TXM_VAULT_KEYS: %w", settings.Error)
	}
	settings.Timeout = c.timeout()
	client, err := api.NewClient(settings) // reads VAULT_TOKEN
	if err != nil {
		return nil, fmt.Errorf("TXM_VAULT_KEYS: %w", err)
	}
	var list []Signer
	for _, text := range c.VaultKeys {
		s, err := c.vaultKey(ctx, client, text)
		if err != nil {
			return nil, fmt.Errorf("TXM_VAULT_KEYS: %s: %w", text, err)
		}
		list = append(list, s)
	}
	return list, nil
}

func (c Config) vaultKey(ctx context.Context, client *api.Client, text string) (Signer, error) {
	parts := strings.Split(text, "/")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || parts[1] == "" {
		return nil, errors.New("want mount/name or mount/name/version")
	}
	mount, name := parts[0], parts[1]
	ctx, cancel := context.WithTimeout(ctx, c.timeout())
	defer cancel()
	answer, err := client.Logical().ReadWithContext(ctx, mount+"/keys/"+name)
	if err != nil {
		return nil, err
	}
	if answer == nil {
		return nil, errors.New("there is no such key")
	}
	version := fmt.Sprint(answer.Data["latest_version"])
	if len(parts) == 3 {
		version = parts[2]
	}
	number, err := strconv.Atoi(version)
	if err != nil {
		return nil, fmt.Errorf("%q is not a version", version)
	}
	text, err = vaultPublicKey(answer, version)
	if err != nil {
		return nil, err
	}
	key, err := pemKey([]byte(text))
	if err != nil {
		return nil, err
	}
	return newRemote("vault", key, c.timeout(), func(ctx context.Context, digest common.Hash) ([]byte, error) {
		signed, err := client.Logical().WriteWithContext(ctx, mount+"/sign/"+name+"/sha2-256", map[string]any{
			"input": base64.StdEncoding.EncodeToString(digest.Bytes()), "prehashed": true, "marshaling_algorithm": "asn1", "key_version": number,
		})
		if err != nil {
			return nil, err
		}
		return vaultSignature(signed)
	}), nil
}

func vaultPublicKey(answer *api.Secret, version string) (string, error) {
	var data struct {
		Keys map[string]json.RawMessage `json:"keys"`
	}
	encoded, err := json.Marshal(answer.Data)
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(encoded, &data); err != nil {
		return "", fmt.Errorf("the answer lists no keys: %w", err)
	}
	var key struct {
		PublicKey string `json:"public_key"`
	}
	if err := json.Unmarshal(data.Keys[version], &key); err != nil || key.PublicKey == "" {
		return "", fmt.Errorf("version %s has no public key", version)
	}
	return key.PublicKey, nil
}

// vaultSignature takes the DER out of "vault:v1:base64".
func vaultSignature(signed *api.Secret) ([]byte, error) {
	if signed == nil {
		return nil, errors.New("the answer has no signature")
	}
	text, _ := signed.Data["signature"].(string)
	parts := strings.SplitN(text, ":", 3)
	if len(parts) != 3 || parts[0] != "vault" {
		return nil, errors.New("the answer has no signature")
	}
	return base64.StdEncoding.DecodeString(parts[2])
}
