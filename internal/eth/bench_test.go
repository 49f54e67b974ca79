package eth

import (
	"encoding/binary"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// fullLogs is what a range of five blocks holds, with twenty transactions and logs each.
func fullLogs() Logs {
	hash := func(n int) common.Hash { return crypto.Keccak256Hash(binary.BigEndian.AppendUint64(nil, uint64(n))) }
	logs := make(Logs, 100)
	for i := range logs {
		block := i / 20
		logs[i] = &Log{
			Address: common.BytesToAddress(hash(i % 5).Bytes()), Topics: []common.Hash{hash(9), hash(100 + i)}, Data: append(hash(200+i).Bytes(), make([]byte, 36)...),
			BlockHash: hash(50 + block), BlockNumber: uint64(90_000_000 + block), BlockTime: uint64(1_767_225_600 + 2*block),
			TxHash: hash(400 + i), TxIndex: uint64(i % 20), Index: uint64(i % 20),
		}
	}
	return logs
}

func BenchmarkLogs(b *testing.B) {
	logs := fullLogs()
	var text []byte
	b.ReportAllocs()
	for b.Loop() {
		text, _ = logs.AppendJSON(text[:0])
	}
	b.SetBytes(int64(len(text)))
}
