package ethapi

import (
	"lockstep/internal/eth"
	"lockstep/internal/jsonx"
)

// blockRef reads a block parameter that its rule has accepted: a tag, a number, a
// hash, or an object that holds one of the latter two. An absent one is the newest
// block.
func blockRef(v jsonx.Value) (eth.BlockRef, error) {
	switch {
	case !v.Given():
		return eth.BlockRef{}, nil
	case v.IsObject():
		return blockObject(v)
	}
	text := v.Text()
	if ref, ok := eth.ParseBlockTag(text); ok {
		return ref, nil
	}
	const hashLength = 2 + 64
	if len(text) == hashLength {
		return eth.HashRef(hashOf(v)), nil
	}
	number, ok := v.Uint64()
	if !ok {
		return eth.BlockRef{}, eth.ErrInvalidArguments("block %q", text)
	}
	return eth.NumberRef(number), nil
}

// blockObject reads {"blockHash": …} or {"blockNumber": …}. All blocks are canonical, so requireCanonical changes
// nothing.
func blockObject(v jsonx.Value) (eth.BlockRef, error) {
	if hash := v.Field("blockHash"); hash.Given() {
		return eth.HashRef(hashOf(hash)), nil
	}
	if number := v.Field("blockNumber"); number.Given() {
		return blockRef(number)
	}
	return eth.BlockRef{}, eth.ErrInvalidArguments("neither block nor hash specified")
}

// index reads a position in a block.
func index(v jsonx.Value, parameter int) (uint64, error) {
	n, ok := v.Uint64()
	if !ok {
		return 0, eth.ErrInvalidParam(parameter, "%s, value: %s", HexRule().Phrase, v.Text())
	}
	return n, nil
}
