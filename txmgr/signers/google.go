package signers

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"

	kms "cloud.google.com/go/kms/apiv1"
	"cloud.google.com/go/kms/apiv1/kmspb"
	"github.com/ethereum/go-ethereum/common"
	"google.golang.org/api/option"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// errChecksum means that what arrived is not what was sent.
var errChecksum = errors.New("the checksum of the answer is wrong")

// google opens the keys in Google Cloud KMS.
func (c Config) google(ctx context.Context) ([]Signer, error) {
	if len(c.GoogleKeys) == 0 {
		return nil, nil
	}
	var options []option.ClientOption
	if c.GoogleEndpoint != "" {
		options = append(options, option.WithEndpoint(c.GoogleEndpoint))
	}
	client, err := kms.NewKeyManagementRESTClient(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("TXM_GOOGLE_KMS_KEYS: %w", err)
	}
	return each("TXM_GOOGLE_KMS_KEYS", c.GoogleKeys, func(name string) (Signer, error) { return c.googleKey(ctx, client, name) })
}

func (c Config) googleKey(ctx context.Context, client *kms.KeyManagementClient, name string) (Signer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout())
	defer cancel()
	answer, err := client.GetPublicKey(ctx, &kmspb.GetPublicKeyRequest{Name: name})
	if err != nil {
		return nil, err
	}
	if sum := answer.GetPemCrc32C(); sum != nil && sum.GetValue() != checksum([]byte(answer.GetPem())) {
		return nil, errChecksum
	}
	key, err := pemKey([]byte(answer.GetPem()))
	if err != nil {
		return nil, err
	}
	return newRemote("google", key, c.timeout(), signsDigest(func(ctx context.Context, digest common.Hash) ([]byte, error) {
		// The algorithm's name says SHA-256; the service signs whatever 32 bytes it is given as a digest.
		signed, err := client.AsymmetricSign(ctx, &kmspb.AsymmetricSignRequest{
			Name:         name,
			Digest:       &kmspb.Digest{Digest: &kmspb.Digest_Sha256{Sha256: digest.Bytes()}},
			DigestCrc32C: wrapperspb.Int64(checksum(digest.Bytes())),
		})
		if err != nil {
			return nil, err
		}
		if !signed.GetVerifiedDigestCrc32C() || signed.GetName() != name || signed.GetSignatureCrc32C().GetValue() != checksum(signed.GetSignature()) {
			return nil, errChecksum
		}
		return signed.GetSignature(), nil
	})), nil
}

func checksum(data []byte) int64 {
	return int64(crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
}
