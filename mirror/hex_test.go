package mirror

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// Every byte at every place is taken or refused, and decoded, as encoding/hex does it.
func TestUnhex(t *testing.T) {
	for _, length := range []int{0, 1, 2, 6, 8, 10, 16, 22, 64} {
		digits := []byte("0123456789abcdefABCDEF9876543210fedcbaFEDCBA00ff7f80a5c3e1d2b4968778")[:length]
		for i := range max(length, 1) {
			for c := range 256 {
				text := bytes.Clone(digits)
				if i < len(text) {
					text[i] = byte(c)
				}
				want, got := make([]byte, length/2), make([]byte, length/2)
				_, err := hex.Decode(want, text)
				if ok := unhex(got, text); ok != (err == nil) || ok && !bytes.Equal(got, want) {
					t.Fatalf("%q: %x, %v; want %x, %v", text, got, ok, want, err)
				}
			}
		}
	}
}

func FuzzUnhex(f *testing.F) {
	f.Add([]byte("00112233445566778899aabbccddeeffAABBCCDDEEFF"))
	f.Fuzz(func(t *testing.T, text []byte) {
		want, got := make([]byte, len(text)/2), make([]byte, len(text)/2)
		_, err := hex.Decode(want, text)
		if ok := unhex(got, text); ok != (err == nil) || ok && !bytes.Equal(got, want) {
			t.Fatalf("%x, %v; want %x, %v", got, ok, want, err)
		}
	})
}
