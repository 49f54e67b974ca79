package eth

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
)

// Roots that Ethereum's own trie tests publish, for key sets without prefixes.
func TestTrieVectors(t *testing.T) {
	tests := []struct {
		keys, values []string
		want         string
	}{
		{[]string{"A"}, []string{strings.Repeat("a", 50)}, "0xd23786fb4a010da3ce639d66d5e904a11dbc02746d1ce25029e53290cabf28ab"},
		{[]string{"\x00\x45", "\x45\x00"}, []string{"\x01\x23\x45\x67\x89", "\x98\x76\x54\x32\x10"}, "0x285505fcabe84badc8aa310e2aae17eddc7d120aabec8a476902c8184b3a3503"},
	}
	for _, test := range tests {
		var leaves []trieLeaf
		for i := range test.keys {
			leaves = append(leaves, trieLeaf{nibbles([]byte(test.keys[i])), []byte(test.values[i])})
		}
		if got := crypto.Keccak256Hash(trieNode(leaves, 0)).Hex(); got != test.want {
			t.Errorf("%q: %s, want %s", test.keys, got, test.want)
		}
	}
}

// A trie that grows by one key at a time is the judge.
func TestListRoot(t *testing.T) {
	if got := ListRoot(nil); got != types.EmptyRootHash {
		t.Errorf("empty: %s", got)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 16, 17, 55, 127, 128, 129, 200, 255, 256, 257, 300, 1000} {
		items := make([][]byte, n)
		var judge growing
		for i := range items {
			items[i] = make([]byte, 1+random.IntN(300))
			for j := range items[i] {
				items[i][j] = byte(random.Uint32())
			}
			judge.insert(nibbles(rlpKey(i)), items[i])
		}
		if got, want := ListRoot(items), crypto.Keccak256Hash(judge.encode()); got != want {
			t.Errorf("%d items: %s, want %s", n, got, want)
		}
	}
}

// growing is a trie of plain branches, one nibble each; extensions and leaves are
// found when it is encoded.
type growing struct {
	children [16]*growing
	value    []byte
}

func (g *growing) insert(path, value []byte) {
	if len(path) == 0 {
		g.value = value
		return
	}
	if g.children[path[0]] == nil {
		g.children[path[0]] = new(growing)
	}
	g.children[path[0]].insert(path[1:], value)
}

func (g *growing) encode() []byte {
	var path []byte
	at := g
	for at.value == nil {
		only, count := 0, 0
		for i, child := range at.children {
			if child != nil {
				only, count = i, count+1
			}
		}
		if count != 1 {
			break
		}
		path = append(path, byte(only))
		at = at.children[only]
	}
	odd := len(path) % 2
	flag := []byte{byte(odd)}
	if odd == 0 {
		flag = []byte{0, 0}
	}
	if at.value != nil {
		flag[0] += 2
	}
	packed := append(flag, path...)
	compact := make([]byte, len(packed)/2)
	for i := range compact {
		compact[i] = packed[2*i]*16 + packed[2*i+1]
	}
	if at.value != nil {
		return encoded([]any{compact, at.value})
	}
	var slots []any
	for _, child := range at.children {
		if child == nil {
			slots = append(slots, []byte{})
		} else {
			slots = append(slots, inParent(child.encode()))
		}
	}
	full := encoded(append(slots, []byte{}))
	if len(path) == 0 {
		return full
	}
	return encoded([]any{compact, inParent(full)})
}

func inParent(node []byte) any {
	if len(node) < 32 {
		return rlp.RawValue(node)
	}
	return crypto.Keccak256(node)
}

func encoded(v any) []byte {
	raw, err := rlp.EncodeToBytes(v)
	if err != nil {
		panic(err)
	}
	return raw
}

func rlpKey(i int) []byte {
	switch {
	case i == 0:
		return []byte{0x80}
	case i < 128:
		return []byte{byte(i)}
	case i < 256:
		return []byte{0x81, byte(i)}
	}
	return []byte{0x82, byte(i >> 8), byte(i)}
}

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
