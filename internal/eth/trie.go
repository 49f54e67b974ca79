package eth

import (
	"bytes"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
)

// ListRoot returns the root of the Merkle-Patricia trie that Ethereum builds over
// a list: the key of each item is the RLP of its position. It is how
// transactionsRoot and receiptsRoot are made.
func ListRoot(items [][]byte) common.Hash {
	leaves := make([]trieLeaf, len(items))
	for i := range items {
		leaves[listOrder(i, len(items))] = trieLeaf{key: nibbles(rlp.AppendUint64(nil, uint64(i))), value: items[i]}
	}
	return crypto.Keccak256Hash(trieNode(leaves, 0))
}

// listOrder returns where item i stands when the keys are sorted as text: the RLP
// of 1…127 is one byte each, of 0 it is 0x80, of larger numbers it begins with 0x81
// and more.
func listOrder(i, n int) int {
	switch {
	case i == 0:
		return min(n, 128) - 1
	case i < 128:
		return i - 1
	default:
		return i
	}
}

type trieLeaf struct {
	key   []byte // nibbles
	value []byte
}

func nibbles(key []byte) []byte {
	out := make([]byte, 0, 2*len(key))
	for _, b := range key {
		out = append(out, b>>4, b&15)
	}
	return out
}

// trieNode returns the RLP of the node over sorted leaves that share their first
// depth nibbles. No key is a prefix of another, so that branches hold no values.
func trieNode(leaves []trieLeaf, depth int) []byte {
	switch len(leaves) {
	case 0:
		return []byte{0x80}
	case 1:
		return listOf(rlpString(compactPath(leaves[0].key[depth:], true)), rlpString(leaves[0].value))
	}
	first, last := leaves[0].key, leaves[len(leaves)-1].key
	shared := depth
	for first[shared] == last[shared] {
		shared++
	}
	if shared > depth {
		return listOf(rlpString(compactPath(first[depth:shared], false)), reference(trieNode(leaves, shared)))
	}
	return branch(leaves, depth)
}

func branch(leaves []trieLeaf, depth int) []byte {
	children := make([][]byte, 0, 17)
	for nibble := byte(0); nibble < 16; nibble++ {
		n := 0
		for n < len(leaves) && leaves[n].key[depth] == nibble {
			n++
		}
		if n == 0 {
			children = append(children, []byte{0x80})
			continue
		}
		children = append(children, reference(trieNode(leaves[:n], depth+1)))
		leaves = leaves[n:]
	}
	return listOf(append(children, []byte{0x80})...)
}

// reference is how a node stands in its parent: as it is if it is short, else as
// its hash.
func reference(node []byte) []byte {
	if len(node) < common.HashLength {
		return node
	}
	return rlpString(crypto.Keccak256(node))
}

// compactPath packs nibbles into bytes behind a flag that tells whether they end in
// a value and whether their count is odd.
func compactPath(path []byte, leaf bool) []byte {
	flag := byte(0)
	if leaf {
		flag = 0x20
	}
	if len(path)%2 == 1 {
		flag |= 0x10 | path[0]
		path = path[1:]
	}
	out := append(make([]byte, 0, 1+len(path)/2), flag)
	for i := 0; i < len(path); i += 2 {
		out = append(out, path[i]<<4|path[i+1])
	}
	return out
}

func rlpString(b []byte) []byte {
	var w bytes.Buffer
	if err := rlp.Encode(&w, b); err != nil {
		panic(err) // bytes into memory
	}
	return w.Bytes()
}

// listOf wraps items that are RLP already into an RLP list.
func listOf(items ...[]byte) []byte {
	size := 0
	for _, item := range items {
		size += len(item)
	}
	var head []byte
	switch {
	case size < 56:
		head = []byte{0xc0 + byte(size)}
	default:
		length := bytes.TrimLeft([]byte{byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size)}, "\x00")
		head = append([]byte{0xf7 + byte(len(length))}, length...)
	}
	out := append(make([]byte, 0, len(head)+size), head...)
	for _, item := range items {
		out = append(out, item...)
	}
	return out
}
