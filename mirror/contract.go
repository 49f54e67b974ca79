package mirror

import (
	"context"
	"encoding/hex"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/hedera"
)

// Contract is a deployed contract.
type Contract struct {
	ID      hedera.ID
	Address common.Address
	Created hedera.Timestamp
	Deleted bool
	Nonce   *uint64
	Code    []byte // runtime code
}

func readContract(r *reader, k *Contract) {
	r.object(func(key []byte) {
		switch string(key) {
		case "contract_id":
			k.ID = r.id()
		case "evm_address":
			k.Address = r.address()
		case "created_timestamp":
			k.Created = r.time()
		case "deleted":
			k.Deleted = r.bool()
		case "nonce":
			k.Nonce = r.optional()
		case "runtime_bytecode":
			k.Code = r.bytes()
		default:
			r.skip()
		}
	})
}

// Contract returns the contract at an address as it is now, or ErrNotFound.
func (c *Client) Contract(ctx context.Context, address common.Address) (*Contract, error) {
	return get(ctx, c, "contracts/{id}", "contracts/"+lowerHex(address), readContract)
}

// slot is an entry of a contract's storage.
type slot struct {
	key, value common.Hash
}

func readSlot(r *reader, s *slot) {
	r.object(func(key []byte) {
		switch string(key) {
		case "slot":
			s.key = r.hash()
		case "value":
			s.value = r.word32()
		default:
			r.skip()
		}
	})
}

// word32 reads up to 32 bytes of hex, aligned to the right.
func (r *reader) word32() (w common.Hash) {
	if !r.exact(w[:]) {
		r.word(w[:], r.digits())
	}
	return w
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
		member: "state", maxPages: 1, read: readSlot,
	}
	page, err := l.page(ctx, c, l.path)
	switch {
	case err == ErrNotFound: //nolint:errorlint // exchange returns it bare
		return common.Hash{}, nil
	case err != nil:
		return common.Hash{}, err
	case len(page.items) == 0 || page.items[0].key != key:
		return common.Hash{}, nil
	}
	return page.items[0].value, nil
}

// tokenExists tells whether an entity is a token.
func (c *Client) tokenExists(ctx context.Context, id hedera.ID) (bool, error) {
	token, err := c.Token(ctx, id)
	return token != nil, absent(err)
}

// Created is an entity whose existence and age alone matter.
type Created struct {
	At hedera.Timestamp
}

// Token returns when a token was created, or ErrNotFound.
func (c *Client) Token(ctx context.Context, id hedera.ID) (*Created, error) {
	return get(ctx, c, "tokens/{tokenId}", "tokens/"+id.String(), func(r *reader, t *Created) {
		r.object(func(key []byte) {
			if string(key) == "created_timestamp" {
				t.At = r.time()
				return
			}
			r.skip()
		})
	})
}

// Schedule returns when a schedule was created, or ErrNotFound.
func (c *Client) Schedule(ctx context.Context, id hedera.ID) (*Created, error) {
	return get(ctx, c, "schedules/{scheduleId}", "schedules/"+id.String(), func(r *reader, s *Created) {
		r.object(func(key []byte) {
			if string(key) == "consensus_timestamp" {
				s.At = r.time()
				return
			}
			r.skip()
		})
	})
}

// absent turns ErrNotFound into no error.
func absent(err error) error {
	if err == ErrNotFound { //nolint:errorlint // exchange returns it bare
		return nil
	}
	return err
}

// lowerHex is the address without the capitals of its checksum, which cost a hash.
func lowerHex(a common.Address) string {
	var text [2 + 2*common.AddressLength]byte
	text[0], text[1] = '0', 'x'
	hex.Encode(text[2:], a[:])
	return string(text[:])
}
