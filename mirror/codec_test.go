package mirror

import (
	"bytes"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
)

// sameRecord compares records field by field, hidden ones included.
func sameRecord(want, got any) string {
	return cmp.Diff(want, got, cmp.AllowUnexported(Log{}), cmp.Comparer(func(a, b *big.Int) bool {
		return (a == nil) == (b == nil) && (a == nil || a.Cmp(b) == 0)
	}))
}

func roundTrip[T any](t *testing.T, name string, value T, fields func(*coder, *T)) {
	t.Helper()
	raw := encodeRecord(&value, fields)
	got := decodeRecord(raw, fields)
	if got == nil {
		t.Fatalf("%s: cannot be read", name)
	}
	if diff := sameRecord(value, *got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", name, diff)
	}
	for i := range raw {
		damaged := bytes.Clone(raw)
		damaged[i] ^= 0x10
		if decodeRecord(damaged, fields) != nil {
			t.Fatalf("%s: byte %d can change", name, i)
		}
		if decodeRecord(raw[:i], fields) != nil {
			t.Fatalf("%s: the first %d bytes are enough", name, i)
		}
	}
}

// fullResult has every field, read from what a mirror node says.
func fullResult(t *testing.T) *ContractResult {
	t.Helper()
	r := new(ContractResult)
	if err := decode([]byte(resultJSON(`"created_contract_ids":[]`, `"created_contract_ids":["0.0.1003"]`)), func(d *reader) { readResult(d, r) }); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRecords(t *testing.T) {
	block := new(Block)
	if err := decode([]byte(blockJSON(17)), func(r *reader) { readBlock(r, block) }); err != nil {
		t.Fatal(err)
	}
	roundTrip(t, "block", *block, blockFields)
	block.Bloom = make([]byte, types.BloomByteLength)
	if empty := len(encodeRecord(block, blockFields)); empty > 150 {
		t.Errorf("a block without logs takes %d bytes", empty)
	}
	roundTrip(t, "empty bloom", *block, blockFields)
	block.Bloom[7] = 1
	roundTrip(t, "bloom", *block, blockFields)
	roundTrip(t, "nothing", Block{}, blockFields)

	full := fullResult(t)
	roundTrip(t, "result", *full, resultFields)
	roundTrip(t, "empty result", ContractResult{}, resultFields)
	odd := *full
	odd.Amount, odd.Input, odd.Output, odd.GasPrice = big.NewInt(-7), []byte{}, nil, new(big.Int)
	odd.Timestamp, odd.Contract = hedera.Timestamp{Seconds: -3, Nanos: 5}, hedera.ID{Shard: 1, Realm: 2, Num: 1 << 62}
	roundTrip(t, "odd result", odd, resultFields)

	roundTrip(t, "results", []*ContractResult{full, &odd}, resultsFields)
	roundTrip(t, "no results", []*ContractResult{}, resultsFields)
	roundTrip(t, "logs", []*Log{{Log: eth.Log{Topics: []common.Hash{{1}, {2}}, Data: []byte{3}, BlockTime: 7, Index: 300}, Timestamp: hedera.Timestamp{Seconds: 7, Nanos: 8}, complete: true}, {}}, logsFields)
	roundTrip(t, "nil logs", []*Log(nil), logsFields)
	roundTrip(t, "alias", common.Address{1, 2}, addressFields)
}

// A record of another version, or of another kind, is none.
func TestForeignRecords(t *testing.T) {
	block := &Block{Number: 1}
	raw := encodeRecord(block, blockFields)
	if decodeRecord(raw, resultFields) != nil {
		t.Error("a block passes for a result")
	}
	if decodeRecord(encodeRecord(block, func(c *coder, b *Block) { blockFields(c, b); c.b = append(c.b, 0) }), blockFields) != nil {
		t.Error("something follows the record")
	}
}

// Whatever is in the store, reading it neither fails nor takes more memory than it has
// bytes.
func FuzzRecord(f *testing.F) {
	f.Add([]byte{1, 2, 3})
	f.Add(encodeRecord(&Block{Number: 9, HAPI: "0.1"}, blockFields))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		decodeRecord(raw, resultsFields)
		for _, fields := range []func(*coder){
			func(c *coder) { resultsFields(c, new([]*ContractResult)) },
			func(c *coder) { logsFields(c, new([]*Log)) },
			func(c *coder) { blockFields(c, new(Block)) },
		} {
			fields(&coder{b: raw, reading: true}) // past the checksum, which fuzzing would not guess
		}
	})
}
