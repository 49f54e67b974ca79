package eth

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"
)

func TestBlockRef(t *testing.T) {
	hash := common.HexToHash("0x01")
	for want, ref := range map[string]BlockRef{
		"latest": {}, "pending": TagRef(TagPending), "safe": TagRef(TagSafe), "finalized": TagRef(TagFinalized),
		"earliest": TagRef(TagEarliest), "0x11": NumberRef(17), hash.Hex(): HashRef(hash),
	} {
		if ref.String() != want {
			t.Errorf("%s, want %s", ref, want)
		}
		parsed, ok := ParseBlockTag(want)
		_, numbered := ref.Number()
		_, hashed := ref.Hash()
		if ok == (numbered || hashed) || ok && parsed != ref {
			t.Errorf("%s parsed as %v, %v", want, parsed, ok)
		}
		if ref.IsLatest() == (numbered || hashed || ref == TagRef(TagEarliest)) {
			t.Errorf("%s: latest %v", want, ref.IsLatest())
		}
	}
}
