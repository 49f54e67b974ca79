package consensus

import (
	"bytes"
	"crypto/sha512"
	"encoding/hex"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// The keys are the public development keys of local Hedera networks.
const (
	devECDSA   = "0x105d050185ccb907fba04dd92d8de9e32c18305e097ab41dadda21489a211524"
	devEd25519 = "91132178e72057a1d7528025956fe39b0b847f200ab59b2fdd367017f3087137"
)

// What the network's official client made of the same inputs.
const (
	goldenRaw = "02f87082012a80808502dc6c08008252089467d8d32e9bf1a9968a5ff53b87d777aa8ebbee698502540be40080c080a01111111111111111111111111111111111111111111111111111111111111111a02222222222222222222222222222222222222222222222222222222222222222"

	goldenEthereumBody = "0a180a0b0880e2cfaa0610959aef3a12070800100018ea071800120608001000180318c0b8eafb032202087832009203730a71" + goldenRaw

	goldenReceiptQuery = "721e0a02100012180a0b0880e2cfaa0610959aef3a12070800100018ea071800"
)

func goldenID() hedera.TransactionID {
	return hedera.TransactionID{Payer: hedera.Entity(1002), ValidStart: hedera.Timestamp{Seconds: 1700000000, Nanos: 123456789}}
}

func mustKey(tb testing.TB, text string, format hedera.KeyFormat) *hedera.PrivateKey {
	tb.Helper()
	return must.Get(hedera.ParsePrivateKey(text, format))(tb)
}

func unhex(tb testing.TB, text string) []byte {
	tb.Helper()
	return must.Get(hex.DecodeString(strings.TrimPrefix(text, "0x")))(tb)
}

func TestGoldenTransactions(t *testing.T) {
	ecdsa := mustKey(t, devECDSA, hedera.FormatHexECDSA)
	ed25519 := mustKey(t, devEd25519, hedera.FormatHexEd25519)
	ethereum := ethereumOperation(unhex(t, goldenRaw), nil, 0)
	tests := []struct {
		name        string
		op          operation
		key         *hedera.PrivateKey
		body        string
		signature   string
		transaction string
		hash        string
	}{
		{
			name: "Ethereum, ECDSA", op: ethereum, key: ecdsa, body: goldenEthereumBody,
			signature:   "de662c42003cc37da2e8c2a7f7da8a57fe7e4974a4b629f073f78906aa3e1ced27a3a3aa97837c0a7add5f3ee710b024741beeb773bfedd4747014c8e6dc1eec",
			transaction: "2a90020aa401" + goldenEthereumBody + "12670a650a2102b3c641418e89452cd5202adfd4758f459acb8e364f741fd16cd2db79835d39d23240de662c42003cc37da2e8c2a7f7da8a57fe7e4974a4b629f073f78906aa3e1ced27a3a3aa97837c0a7add5f3ee710b024741beeb773bfedd4747014c8e6dc1eec",
			hash:        "3fae0c4b8de2c96f96d76a5e694af53e79e25c2c0555b469440fb3abac7014bdda37040c947d8668f45ac3af9710dcb9",
		},
		{
			name: "Ethereum, Ed25519", op: ethereum, key: ed25519, body: goldenEthereumBody,
			signature:   "4fbdfe2b3a562cc6b3351c3bb284d6acb22b50462449e1c9f41297f4e083404a038c1680d833e672bf6060762676e4a66527ea5d1f743ff4b2ac778ebf81b208",
			transaction: "2a8f020aa401" + goldenEthereumBody + "12660a640a200aa8e21064c61eab86e2a9c164565b4e7a9a4146106e0a6cd03a8c395a110e921a404fbdfe2b3a562cc6b3351c3bb284d6acb22b50462449e1c9f41297f4e083404a038c1680d833e672bf6060762676e4a66527ea5d1f743ff4b2ac778ebf81b208",
			hash:        "e10be45029a7b0d692c2aa48d495653021a36da50413cddb5ca2dfe441be328ed634c005b77f103316950e9651dbce27",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := draft{operation: test.op, id: goldenID(), maxFee: 1_065_000_000, signer: &Operator{ID: hedera.Entity(1002), Key: test.key}}
			sent := must.Get(d.sign(hedera.Entity(3)))(t)
			transaction := encoded(t, sent)
			if got := hex.EncodeToString(transaction); got != test.transaction {
				t.Errorf("transaction\n got %s\nwant %s", got, test.transaction)
			}
			hash := sha512.Sum384(sent.GetSignedTransactionBytes())
			if got := hex.EncodeToString(hash[:]); got != test.hash {
				t.Errorf("hash\n got %s\nwant %s", got, test.hash)
			}
			body, pair := decodeSigned(t, transaction)
			if got := hex.EncodeToString(body); got != test.body {
				t.Errorf("body\n got %s\nwant %s", got, test.body)
			}
			signature := pair.GetECDSASecp256K1()
			if test.key.Kind() == hedera.Ed25519 {
				signature = pair.GetEd25519()
			}
			if got := hex.EncodeToString(signature); got != test.signature {
				t.Errorf("signature\n got %s\nwant %s", got, test.signature)
			}
		})
	}
}

func TestGoldenReceiptQuery(t *testing.T) {
	if got := hex.EncodeToString(encoded(t, receiptQuery(goldenID()))); got != goldenReceiptQuery {
		t.Errorf("receipt query\n got %s\nwant %s", got, goldenReceiptQuery)
	}
}

func encoded(t *testing.T, m proto.Message) []byte {
	t.Helper()
	return must.Get(proto.Marshal(m))(t)
}

func decodeSigned(t *testing.T, transaction []byte) (body []byte, pair *hapi.SignaturePair) {
	t.Helper()
	var outer hapi.Transaction
	var signed hapi.SignedTransaction
	must.Do(t, proto.Unmarshal(transaction, &outer))
	must.Do(t, proto.Unmarshal(outer.GetSignedTransactionBytes(), &signed))
	pairs := signed.GetSigMap().GetSigPair()
	if len(pairs) != 1 {
		t.Fatalf("%d signature pairs, want 1", len(pairs))
	}
	return signed.GetBodyBytes(), pairs[0]
}

func TestIDsAreUnique(t *testing.T) {
	s := newIDSource()
	const workers, each = 16, 20_000
	drawn := make([][]hedera.TransactionID, workers)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := range each {
				id, skew := s.next(hedera.Entity(2), time.Now())
				drawn[w] = append(drawn[w], id)
				if i%5000 == 4999 { // the clock steps to and fro, and another process gets in the way
					s.adjust(skew, w%2 == 0)
					s.collided()
				}
			}
		})
	}
	group.Wait()
	seen := make(map[hedera.TransactionID]bool, workers*each)
	for _, ids := range drawn {
		for _, id := range ids {
			if seen[id] {
				t.Fatalf("%s was drawn twice", id)
			}
			seen[id] = true
		}
	}
}

// TestLastDigitsDoNotRepeat: they are what keeps ids apart when the clock goes back.
func TestLastDigitsDoNotRepeat(t *testing.T) {
	for range 50 {
		s := newIDSource()
		seen := make(map[int64]bool, idStride)
		for range idStride {
			s.collided()
			seen[s.digit] = true
		}
		if len(seen) != idStride {
			t.Fatalf("a hop of %d visits %d of %d", s.hop, len(seen), idStride)
		}
	}
}

func TestIDStart(t *testing.T) {
	s := newIDSource()
	now := time.Unix(1_700_000_000, 5)
	lag := func() time.Duration {
		id, _ := s.next(hedera.Entity(2), now)
		return now.Sub(id.ValidStart.Time()).Truncate(time.Second)
	}
	if got := lag(); got != 4*time.Second { // the last digits move it up to 10 µs later
		t.Errorf("the valid start lies %v back", got)
	}
	s.adjust(0, false)
	s.adjust(0, false) // about an id drawn before the first: does not count
	if got := lag(); got != 49*time.Second {
		t.Errorf("after one start in the future it lies %v back", got)
	}
	for range 100 {
		_, skew := s.next(hedera.Entity(2), now)
		s.adjust(skew, true)
	}
	if got := lag(); got != -(maxSkew - startLead) {
		t.Errorf("after many expired starts it lies %v back", got)
	}
}

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
