package consensus

import (
	"bytes"
	"testing"
	"time"

	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// FuzzPieces cuts contents: nothing is lost, added or moved, no piece is too long, and
// there are no more pieces than needed.
func FuzzPieces(f *testing.F) {
	f.Add([]byte(nil), 1)
	f.Add([]byte("0123456789"), 5)
	f.Add([]byte("0123456789a"), 5)
	f.Add(bytes.Repeat([]byte("ab"), 5120), 5120)
	f.Fuzz(func(t *testing.T, contents []byte, size int) {
		if size < 1 || size > 1<<20 {
			t.Skip()
		}
		pieces := split(contents, size)
		if want := max(1, (len(contents)+size-1)/size); len(pieces) != want {
			t.Errorf("%d pieces of %d bytes in pieces of %d, want %d", len(pieces), len(contents), size, want)
		}
		for i, piece := range pieces {
			if len(piece) > size || len(piece) == 0 && i > 0 {
				t.Errorf("piece %d has %d bytes", i, len(piece))
			}
		}
		if !bytes.Equal(bytes.Join(pieces, nil), contents) {
			t.Error("the pieces do not make the contents")
		}
	})
}

func TestFileOperations(t *testing.T) {
	ecdsa, ed25519 := mustKey(t, devECDSA, hedera.FormatHexECDSA), mustKey(t, devEd25519, hedera.FormatHexEd25519)
	for _, key := range []*hedera.PrivateKey{ecdsa, ed25519} {
		create := fileCreation(key, []byte("6001")).body.GetFileCreate()
		owner := create.GetKeys().GetKeys()
		if string(create.GetContents()) != "6001" || len(owner) != 1 {
			t.Fatalf("FileCreate %v", create)
		}
		if got := append(owner[0].GetEd25519(), owner[0].GetECDSASecp256K1()...); !bytes.Equal(got, key.Public()) {
			t.Errorf("owned by %x, want %x", got, key.Public())
		}
		if in := time.Until(time.Unix(create.GetExpirationTime().GetSeconds(), 0)); in < fileLifetime-time.Hour || in > fileLifetime {
			t.Errorf("expires in %v", in)
		}
		piece := fileAppend(hedera.Entity(1234), []byte("5f5f")).body.GetFileAppend()
		if piece.GetFileID().GetFileNum() != 1234 || string(piece.GetContents()) != "5f5f" {
			t.Errorf("FileAppend %v", piece)
		}
		if got := fileDeletion(hedera.Entity(1234)).body.GetFileDelete(); got.GetFileID().GetFileNum() != 1234 {
			t.Errorf("FileDelete %v", got)
		}
	}
}

// Without an operator nothing is tried.
func TestStoreFileNeedsAnOperator(t *testing.T) {
	c := must.Get(New(Config{Network: `{"127.0.0.1:1":"0.0.3"}`, MaxAttempts: 1, AttemptTimeout: 1e9, RequestTimeout: 1e9}, quickLog(t)))(t)
	defer c.Close()
	if file, err := c.StoreFile(t.Context(), [20]byte{1}, []byte("00"), 1); file != nil || err != ErrNoOperator { //nolint:errorlint // not wrapped
		t.Errorf("StoreFile = %v, %v", file, err)
	}
}
