package eth

import "github.com/ethereum/go-ethereum/core/types"

// BloomOf returns the bloom filter over the addresses and topics of logs.
func BloomOf(logs []*Log) (bloom types.Bloom) {
	for _, l := range logs {
		bloom.Add(l.Address[:])
		for i := range l.Topics {
			bloom.Add(l.Topics[i][:])
		}
	}
	return bloom
}
