package mirror

import (
	"context"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/hedera"
)

// Contract is a deployed contract.
type Contract struct {
	ID      hedera.ID        `json:"contract_id"`
	Address common.Address   `json:"evm_address"`
	Created hedera.Timestamp `json:"created_timestamp"`
	Deleted bool             `json:"deleted"`
	Nonce   *uint64          `json:"nonce"`
	Code    []byte           `json:"runtime_bytecode"` // runtime code
}

// Contract returns the contract at an address as it is now, or ErrNotFound.
func (c *Client) Contract(ctx context.Context, address common.Address) (*Contract, error) {
	return get[Contract](ctx, c, "contracts/{id}", "contracts/"+lowerHex(address))
}

// slot is an entry of a contract's storage.
type slot struct {
	Key   common.Hash `json:"slot"`
	Value common.Hash `json:"value"`
}

// Storage returns a word of a contract's storage at a moment; the zero time is now. A word that was never written
// is zero.
func (c *Client) Storage(ctx context.Context, address common.Address, key common.Hash, at hedera.Timestamp) (common.Hash, error) {
	var q query
	if !at.IsZero() {
		q.add("timestamp", at.String())
	}
	q.add("slot", key.Hex())
	q.add("limit", "1")
	q.add("order", string(Descending))
	l := list[slot]{
		label: "contracts/{id}/state", path: "contracts/" + lowerHex(address) + "/state" + q.String(),
		member: "state", maxPages: 1,
	}
	page, err := l.page(ctx, c, l.path)
	switch {
	case err == ErrNotFound: //nolint:errorlint // exchange returns it bare
		return common.Hash{}, nil
	case err != nil:
		return common.Hash{}, err
	case len(page.items) == 0 || page.items[0].Key != key:
		return common.Hash{}, nil
	}
	return page.items[0].Value, nil
}

// tokenExists tells whether an entity is a token.
func (c *Client) tokenExists(ctx context.Context, id hedera.ID) (bool, error) {
	token, err := c.Token(ctx, id)
	return token != nil, absent(err)
}

// Created is an entity whose existence and age alone matter.
type Created struct {
	At hedera.Timestamp `json:"created_timestamp"`
}

// Token returns when a token was created, or ErrNotFound.
func (c *Client) Token(ctx context.Context, id hedera.ID) (*Created, error) {
	return get[Created](ctx, c, "tokens/{tokenId}", "tokens/"+id.String())
}

// Schedule returns when a schedule was created, or ErrNotFound.
func (c *Client) Schedule(ctx context.Context, id hedera.ID) (*Created, error) {
	type schedule struct {
		At hedera.Timestamp `json:"consensus_timestamp"`
	}
	s, err := get[schedule](ctx, c, "schedules/{scheduleId}", "schedules/"+id.String())
	return (*Created)(s), err
}

// absent turns ErrNotFound into no error.
func absent(err error) error {
	if err == ErrNotFound { //nolint:errorlint // exchange returns it bare
		return nil
	}
	return err
}
