package eth

import (
	"encoding/hex"
	"math"
	"strconv"
	"testing"
)

// Every byte at every place among four, and every length that leaves a rest.
func TestAppendHex(t *testing.T) {
	data := make([]byte, 0, 300)
	for i := range cap(data) {
		data = append(data, byte(i))
		for start := range min(len(data), 4) {
			part := data[start:]
			if got, want := string(appendHex([]byte("0x"), part)), "0x"+hex.EncodeToString(part); got != want {
				t.Fatalf("%d bytes: %s, want %s", len(part), got, want)
			}
		}
	}
	if got := appendHex(nil, nil); len(got) != 0 {
		t.Errorf("nothing is %q", got)
	}
}

func TestAppendDigits(t *testing.T) {
	numbers := []uint64{0, math.MaxUint64, 0x0123456789abcdef, 0xfedcba9876543210}
	for bit := range 64 {
		numbers = append(numbers, 1<<bit-1, 1<<bit, 1<<bit+1)
	}
	for _, n := range numbers {
		if got, want := string(appendDigits([]byte("0x"), n)), "0x"+strconv.FormatUint(n, 16); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
