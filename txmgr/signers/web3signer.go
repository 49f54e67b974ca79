package signers

import (
	"context"
	"crypto/ecdsa"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/secret"
)

// web3signer opens keys behind Web3Signer's HTTP interface in its mode eth1, which Web3Signer has for Azure Key Vault,
// AWS, HSMs and files, and which other programs speak, too. POST /api/v1/eth1/sign/{public key} takes {"data":"0x…"},
// hashes that with Keccak-256, signs the hash and answers r, s and v as text.
func (c Config) web3signer(ctx context.Context) ([]Signer, error) {
	if len(c.Web3SignerKeys) == 0 {
		return nil, nil
	}
	service, err := c.web3signerService()
	if err != nil {
		return nil, err
	}
	var listed map[common.Address]*ecdsa.PublicKey
	return each("TXM_WEB3SIGNER_KEYS", c.Web3SignerKeys, func(text string) (Signer, error) {
		address, key, err := web3signerKey(text)
		if err == nil && key == nil { // a key is asked for by its public key alone
			if listed == nil {
				listed, err = c.web3signerKeys(ctx, service)
			}
			if key = listed[address]; err == nil && key == nil {
				err = fmt.Errorf("the service lists %d keys, and not that one", len(listed))
			}
		}
		if err != nil {
			return nil, err
		}
		return newRemote("web3signer", key, c.timeout(), signsData(service, key)), nil
	})
}

// web3signerService reads the settings that say where the service is, and who we are to it.
func (c Config) web3signerService() (*web, error) {
	trust, err := trusts(c.Web3SignerCA.Reveal(), c.Web3SignerCert.Reveal(), c.Web3SignerCertKey.Reveal())
	if err != nil {
		return nil, fmt.Errorf("TXM_WEB3SIGNER_CA_FILE, TXM_WEB3SIGNER_CERT_FILE, TXM_WEB3SIGNER_KEY_FILE: %w", err)
	}
	service, err := newWeb(c.Web3SignerURL.Reveal(), trust)
	if err != nil {
		return nil, fmt.Errorf("TXM_WEB3SIGNER_URL: %w", err)
	}
	service.header.Set("Accept", "text/plain, application/json")
	if token := secret.OfFile(c.Web3SignerTokenFile, c.Web3SignerToken.Reveal()); token != "" {
		service.token = secret.String(token)
		service.header.Set("Authorization", "Bearer "+token)
	}
	return service, nil
}

// checkWeb3Signer checks what can be checked without asking the service.
func (c Config) checkWeb3Signer() error {
	if c.Web3SignerURL == "" && len(c.Web3SignerKeys) == 0 {
		return nil
	}
	_, err := c.web3signerService()
	errs := []error{err}
	if len(c.Web3SignerKeys) == 0 {
		errs = append(errs, errors.New("TXM_WEB3SIGNER_URL: name the keys that sign in TXM_WEB3SIGNER_KEYS"))
	}
	for _, text := range c.Web3SignerKeys {
		if _, _, err := web3signerKey(text); err != nil {
			errs = append(errs, fmt.Errorf("TXM_WEB3SIGNER_KEYS: %s: %w", text, err))
		}
	}
	return errors.Join(errs...)
}

// web3signerKey reads an address, or a public key of secp256k1 in any of its usual forms; then it has both.
func web3signerKey(text string) (common.Address, *ecdsa.PublicKey, error) {
	digits := text
	if len(text) > 2 && (text[:2] == "0x" || text[:2] == "0X") {
		digits = text[2:]
	}
	raw, err := hex.DecodeString(digits)
	if err == nil && len(raw) == common.AddressLength {
		mixed := digits != strings.ToLower(digits) && digits != strings.ToUpper(digits)
		if address := common.BytesToAddress(raw); !mixed || digits == address.Hex()[2:] {
			return address, nil, nil
		}
		return common.Address{}, nil, errors.New("the checksum of the address is wrong (EIP-55)")
	}
	var key *ecdsa.PublicKey
	switch {
	case err != nil:
	case len(raw) == 64: // as Web3Signer writes it
		key, err = crypto.UnmarshalPubkey(append([]byte{4}, raw...))
	case len(raw) == 33:
		key, err = crypto.DecompressPubkey(raw)
	default:
		key, err = crypto.UnmarshalPubkey(raw)
	}
	if err != nil {
		return common.Address{}, nil, errors.New("neither an address nor a public key of secp256k1 in hex")
	}
	return crypto.PubkeyToAddress(*key), key, nil
}

// web3signerKeys asks for the keys of a service, by address.
func (c Config) web3signerKeys(ctx context.Context, service *web) (map[common.Address]*ecdsa.PublicKey, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout())
	defer cancel()
	answer, err := service.call(ctx, http.MethodGet, nil, "api", "v1", "eth1", "publicKeys")
	if err != nil {
		if _, down := service.call(ctx, http.MethodGet, nil, "upcheck"); down == nil {
			err = fmt.Errorf("%w; it is up, so does it run in mode eth1, and may this client list its keys?", err)
		}
		return nil, fmt.Errorf("listing the keys: %w", err)
	}
	var texts []string
	if json.Unmarshal(answer, &texts) != nil {
		return nil, errors.New("listing the keys: the answer is not a JSON array of strings")
	}
	keys := make(map[common.Address]*ecdsa.PublicKey, len(texts))
	for _, text := range texts {
		if address, key, err := web3signerKey(text); err == nil && key != nil { // a key of another curve is not ours to use
			keys[address] = key
		}
	}
	return keys, nil
}

// signsData hands over the bytes, since the service signs the hash of what it is given.
func signsData(service *web, key *ecdsa.PublicKey) sign {
	identifier := hexutil.Encode(crypto.FromECDSAPub(key)[1:])
	return func(ctx context.Context, unsigned []byte, _ common.Hash) (r, s *big.Int, err error) {
		in := struct {
			Data hexutil.Bytes `json:"data"`
		}{unsigned}
		answer, err := service.call(ctx, http.MethodPost, in, "api", "v1", "eth1", "sign", identifier)
		var refused *refusal
		switch {
		case errors.As(err, &refused) && refused.status == http.StatusNotFound:
			return nil, nil, fmt.Errorf("the service has no such key: %w", err)
		case err != nil:
			return nil, nil, err
		}
		signature, err := hexutil.Decode(strings.TrimSpace(string(answer)))
		if err != nil || len(signature) != SignatureLength {
			return nil, nil, errors.New("the answer is not a signature of 65 bytes in hex")
		}
		return new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:64]), nil
	}
}
