package consensus

import (
	"crypto/sha512"
	"encoding/hex"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
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

	goldenTransferBody = "0a180a0b0880e2cfaa0610959aef3a12070800100018ea071800120608001000180318c0b8eafb032202087832016d72330a310a0d0a070800100018ea07100918000a200a1a08001000221405fba803be258049a27b820088bab1cad2058871100a1800"

	goldenReceiptQuery = "721e0a02100012180a0b0880e2cfaa0610959aef3a12070800100018ea071800"
)

func goldenID() hedera.TransactionID {
	return hedera.TransactionID{Payer: hedera.Entity(1002), ValidStart: hedera.Timestamp{Seconds: 1700000000, Nanos: 123456789}}
}

func mustKey(tb testing.TB, text string, format hedera.KeyFormat) *hedera.PrivateKey {
	tb.Helper()
	key, err := hedera.ParsePrivateKey(text, format)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func unhex(tb testing.TB, text string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestGoldenTransactions(t *testing.T) {
	ecdsa := mustKey(t, devECDSA, hedera.FormatHexECDSA)
	ed25519 := mustKey(t, devEd25519, hedera.FormatHexEd25519)
	ethereum := ethereumOperation(unhex(t, goldenRaw), nil, 0)
	tests := []struct {
		name        string
		op          operation
		key         *hedera.PrivateKey
		memo        string
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
		{
			name: "transfer, ECDSA", op: transferOperation(t), key: ecdsa, memo: "m", body: goldenTransferBody,
			signature:   "62b2ca04179d11a3f5b8910295ef9bb965a8675e9db59539a23dc50c964e0de823891e83ad82115e118e73e1e7b548a325dba2248976bd5b32ef05237f6b9054",
			transaction: "2acf010a64" + goldenTransferBody + "12670a650a2102b3c641418e89452cd5202adfd4758f459acb8e364f741fd16cd2db79835d39d2324062b2ca04179d11a3f5b8910295ef9bb965a8675e9db59539a23dc50c964e0de823891e83ad82115e118e73e1e7b548a325dba2248976bd5b32ef05237f6b9054",
			hash:        "7371bcef7382caf32bd2cb43e8a62e7d3dd6ffa3d5801d06d7d896888317e51fb4a35886077c2bbd9ad983bdecbcfa23",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := draft{operation: test.op, id: goldenID(), maxFee: 1_065_000_000, memo: test.memo, signer: &Operator{ID: hedera.Entity(1002), Key: test.key}}
			transaction, signed, err := d.sign(hedera.Entity(3))
			if err != nil {
				t.Fatal(err)
			}
			if got := hex.EncodeToString(transaction); got != test.transaction {
				t.Errorf("transaction\n got %s\nwant %s", got, test.transaction)
			}
			hash := sha512.Sum384(signed)
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
	if got := hex.EncodeToString(receiptQuery(goldenID())); got != goldenReceiptQuery {
		t.Errorf("receipt query\n got %s\nwant %s", got, goldenReceiptQuery)
	}
}

// TestSignDecodes reads hand-written bytes with the generated decoder, for the
// fields and sizes that the golden vectors do not have.
func TestSignDecodes(t *testing.T) {
	file := hedera.ID{Shard: 1, Realm: 300, Num: 1 << 40}
	id := hedera.TransactionID{Payer: hedera.ID{Shard: 5, Realm: 1 << 33, Num: 1<<62 + 1}, ValidStart: hedera.Timestamp{Seconds: 1 << 40}}
	raw := make([]byte, 128*1024)
	d := draft{
		operation: ethereumOperation(raw, &file, 7*hedera.Hbar),
		id:        id, maxFee: 1, signer: &Operator{ID: id.Payer, Key: mustKey(t, devECDSA, hedera.FormatHexECDSA)},
	}
	node := hedera.ID{Num: 9000}
	transaction, _, err := d.sign(node)
	if err != nil {
		t.Fatal(err)
	}
	bodyBytes, pair := decodeSigned(t, transaction)
	if !hedera.Verify(pair.GetPubKeyPrefix(), bodyBytes, pair.GetECDSASecp256K1()) {
		t.Error("the signature does not verify")
	}
	var body hapi.TransactionBody
	if err := proto.Unmarshal(bodyBytes, &body); err != nil {
		t.Fatal(err)
	}
	want := &hapi.TransactionBody{
		TransactionID: &hapi.TransactionID{
			TransactionValidStart: &hapi.Timestamp{Seconds: 1 << 40},
			AccountID:             accountID(id.Payer), Scheduled: proto.Bool(false),
		},
		NodeAccountID: accountID(node), TransactionFee: 1, TransactionValidDuration: &hapi.Duration{Seconds: 120}, Memo: proto.String(""),
		Data: &hapi.TransactionBody_EthereumTransaction{EthereumTransaction: &hapi.EthereumTransactionBody{
			EthereumData: raw, MaxGasAllowance: 700_000_000,
			CallData: &hapi.FileID{ShardNum: proto.Int64(1), RealmNum: proto.Int64(300), FileNum: 1 << 40},
		}},
	}
	if !proto.Equal(&body, want) {
		t.Errorf("the body decodes to other values: id %v node %v", body.GetTransactionID(), body.GetNodeAccountID())
	}
}

func transferOperation(t *testing.T) operation {
	t.Helper()
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(&hapi.CryptoTransferTransactionBody{
		Transfers: &hapi.TransferList{AccountAmounts: []*hapi.AccountAmount{
			{AccountID: accountID(hedera.Entity(1002)), Amount: -5, IsApproval: proto.Bool(false)},
			{
				AccountID: &hapi.AccountID{
					ShardNum: proto.Int64(0), RealmNum: proto.Int64(0),
					Account: &hapi.AccountID_Alias{Alias: unhex(t, "05fba803be258049a27b820088bab1cad2058871")},
				},
				Amount: 5, IsApproval: proto.Bool(false),
			},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return operation{method: hapi.MethodCryptoTransfer, field: 14, data: data}
}

func accountID(id hedera.ID) *hapi.AccountID {
	return &hapi.AccountID{ShardNum: &id.Shard, RealmNum: &id.Realm, Account: &hapi.AccountID_AccountNum{AccountNum: id.Num}}
}

func decodeSigned(t *testing.T, transaction []byte) (body []byte, pair *hapi.SignaturePair) {
	t.Helper()
	var outer hapi.Transaction
	var signed hapi.SignedTransaction
	if err := proto.Unmarshal(transaction, &outer); err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(outer.GetSignedTransactionBytes(), &signed); err != nil {
		t.Fatal(err)
	}
	pairs := signed.GetSigMap().GetSigPair()
	if len(pairs) != 1 {
		t.Fatalf("%d signature pairs, want 1", len(pairs))
	}
	return signed.GetBodyBytes(), pairs[0]
}

func BenchmarkSign(b *testing.B) {
	raw := unhex(b, goldenRaw)
	signer := &Operator{ID: hedera.Entity(1002), Key: mustKey(b, devECDSA, hedera.FormatHexECDSA)}
	b.ReportAllocs()
	for b.Loop() {
		d := draft{operation: ethereumOperation(raw, nil, 0), id: goldenID(), maxFee: 1_065_000_000, signer: signer}
		if _, _, err := d.sign(hedera.Entity(3)); err != nil {
			b.Fatal(err)
		}
	}
}
