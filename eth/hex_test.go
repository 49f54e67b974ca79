package eth

import (
	"encoding/hex"
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
