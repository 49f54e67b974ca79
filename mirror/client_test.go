package mirror

import (
	"context"
	"testing"
)

func TestLatestBlock(t *testing.T) {
	n := newNode(t)
	n.set("blocks?limit=1&order=desc", blocksJSON("null", 17))
	block, err := connect(t, n.URL).LatestBlock(context.Background())
	if err != nil || block.Number != 17 || block.GasUsed != 21000 || block.HAPI != "0.75.0" || block.Hash.Hex() != blockHash || block.ParentHash.Hex() != parentHash {
		t.Fatalf("%+v, %v", block, err)
	}
}
