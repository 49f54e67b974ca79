package signers

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/ethereum/go-ethereum/common"
)

// aws opens the keys in AWS KMS.
func (c Config) aws(ctx context.Context) ([]Signer, error) {
	if len(c.AWSKeys) == 0 {
		return nil, nil
	}
	loaded, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("TXM_AWS_KMS_KEYS: %w", err)
	}
	client := kms.NewFromConfig(loaded, func(o *kms.Options) {
		if c.AWSEndpoint != "" {
			o.BaseEndpoint = &c.AWSEndpoint
		}
	})
	return each("TXM_AWS_KMS_KEYS", c.AWSKeys, func(id string) (Signer, error) { return c.awsKey(ctx, client, id) })
}

func (c Config) awsKey(ctx context.Context, client *kms.Client, id string) (Signer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout())
	defer cancel()
	answer, err := client.GetPublicKey(ctx, &kms.GetPublicKeyInput{KeyId: &id})
	if err != nil {
		return nil, err
	}
	key, err := publicKey(answer.PublicKey)
	if err != nil {
		return nil, err
	}
	return newRemote("aws", key, c.timeout(), signsDigest(func(ctx context.Context, digest common.Hash) ([]byte, error) {
		signed, err := client.Sign(ctx, &kms.SignInput{
			KeyId: &id, Message: digest.Bytes(), MessageType: types.MessageTypeDigest, SigningAlgorithm: types.SigningAlgorithmSpecEcdsaSha256,
		})
		if err != nil {
			return nil, err
		}
		return signed.Signature, nil
	})), nil
}
