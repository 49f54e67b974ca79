package eth

import (
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

// BlockRef names a block: by a tag, a number or a hash. The zero value is the
// newest block.
type BlockRef struct {
	tag    BlockTag
	number uint64
	hash   common.Hash
}

// BlockTag is how a BlockRef names its block.
type BlockTag uint8

// The tags, and the two ways that are none.
const (
	TagLatest BlockTag = iota
	TagPending
	TagSafe
	TagFinalized
	TagEarliest
	ByNumber
	ByHash
)

// TagRef names a block by a tag.
func TagRef(tag BlockTag) BlockRef { return BlockRef{tag: tag} }

// NumberRef names a block by its number.
func NumberRef(n uint64) BlockRef { return BlockRef{tag: ByNumber, number: n} }

// HashRef names a block by its hash.
func HashRef(h common.Hash) BlockRef { return BlockRef{tag: ByHash, hash: h} }

// ParseBlockTag reads a tag as clients write it.
func ParseBlockTag(text string) (BlockRef, bool) {
	switch text {
	case "latest":
		return TagRef(TagLatest), true
	case "pending":
		return TagRef(TagPending), true
	case "safe":
		return TagRef(TagSafe), true
	case "finalized":
		return TagRef(TagFinalized), true
	case "earliest":
		return TagRef(TagEarliest), true
	}
	return BlockRef{}, false
}

// IsLatest tells whether the newest block is meant. Every block is final on Hedera
// and none is pending, so that four tags mean the same.
func (r BlockRef) IsLatest() bool { return r.tag < TagEarliest }

// IsPending tells whether the newest block is meant together with what waits to be
// in the next one.
func (r BlockRef) IsPending() bool { return r.tag == TagPending }

// Number returns the number, if the reference is by number.
func (r BlockRef) Number() (uint64, bool) { return r.number, r.tag == ByNumber }

// Hash returns the hash, if the reference is by hash.
func (r BlockRef) Hash() (common.Hash, bool) { return r.hash, r.tag == ByHash }

// String returns the reference as clients write it.
func (r BlockRef) String() string {
	switch r.tag {
	case TagPending:
		return "pending"
	case TagSafe:
		return "safe"
	case TagFinalized:
		return "finalized"
	case TagEarliest:
		return "earliest"
	case ByNumber:
		return hexutil.EncodeUint64(r.number)
	case ByHash:
		return r.hash.Hex()
	case TagLatest:
	}
	return "latest"
}
