package node

import (
	"crypto/ecdsa"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

func must[T any](t testing.TB, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func newNetwork(t testing.TB, cfg Config) *Network {
	t.Helper()
	if cfg.Ledger == nil {
		l, err := ledger.New(ledger.Config{Nodes: NodeAccounts(max(cfg.Nodes, 1))})
		cfg.Ledger = must(t, l, err)
	}
	n, err := New(cfg)
	return must(t, n, err)
}

// payer is dev account n with its key.
type payer struct {
	id  hedera.ID
	key *hedera.PrivateKey
	ec  *ecdsa.PrivateKey
	at  common.Address
}

func dev(t testing.TB, n int) payer {
	t.Helper()
	a := devaccounts.All()[n]
	format := hedera.FormatHexECDSA
	if len(a.PublicKey) == 32 {
		format = hedera.FormatHexEd25519
	}
	key, err := hedera.ParsePrivateKey(a.PrivateKey, format)
	p := payer{id: a.ID, key: must(t, key, err), at: a.EVMAddress()}
	if format == hedera.FormatHexECDSA {
		ec, err := crypto.HexToECDSA(a.PrivateKey)
		p.ec = must(t, ec, err)
	}
	return p
}

// order makes one transaction after another.
type order struct {
	t     testing.TB
	nanos int32
}

// body fills what every body has. Fields that are set stay.
func (o *order) body(p payer, b *hapi.TransactionBody) *hapi.TransactionBody {
	o.nanos++
	if b.TransactionID == nil {
		start := time.Now().Add(-5 * time.Second)
		b.TransactionID = &hapi.TransactionID{
			TransactionValidStart: &hapi.Timestamp{Seconds: start.Unix(), Nanos: o.nanos},
			AccountID:             p.id.AccountID(),
		}
	}
	if b.NodeAccountID == nil {
		b.NodeAccountID = hedera.Entity(3).AccountID()
	}
	if b.TransactionFee == 0 {
		b.TransactionFee = 100_000_000
	}
	if b.TransactionValidDuration == nil {
		b.TransactionValidDuration = &hapi.Duration{Seconds: 120}
	}
	return b
}

func (o *order) sign(b *hapi.TransactionBody, keys ...*hedera.PrivateKey) *hapi.Transaction {
	o.t.Helper()
	raw, err := proto.Marshal(b)
	return o.envelope(must(o.t, raw, err), keys...)
}

func (o *order) envelope(raw []byte, keys ...*hedera.PrivateKey) *hapi.Transaction {
	o.t.Helper()
	sigs := &hapi.SignatureMap{}
	for _, key := range keys {
		s, err := key.Sign(raw)
		s = must(o.t, s, err)
		pair := &hapi.SignaturePair{PubKeyPrefix: key.Public()}
		if key.Kind() == hedera.Ed25519 {
			pair.Signature = &hapi.SignaturePair_Ed25519{Ed25519: s}
		} else {
			pair.Signature = &hapi.SignaturePair_ECDSASecp256K1{ECDSASecp256K1: s}
		}
		sigs.SigPair = append(sigs.SigPair, pair)
	}
	signed, err := proto.Marshal(&hapi.SignedTransaction{BodyBytes: raw, SigMap: sigs})
	return &hapi.Transaction{SignedTransactionBytes: must(o.t, signed, err)}
}

func transfer(from, to *hapi.AccountID, amount int64) *hapi.TransactionBody {
	return &hapi.TransactionBody{Data: &hapi.TransactionBody_CryptoTransfer{
		CryptoTransfer: &hapi.CryptoTransferTransactionBody{Transfers: &hapi.TransferList{
			AccountAmounts: []*hapi.AccountAmount{{AccountID: from, Amount: -amount}, {AccountID: to, Amount: amount}},
		}},
	}}
}

func alias(a common.Address) *hapi.AccountID {
	return &hapi.AccountID{Account: &hapi.AccountID_Alias{Alias: a.Bytes()}}
}

func ethereum(t testing.TB, from payer, nonce uint64, to *common.Address, gas uint64) *hapi.TransactionBody {
	t.Helper()
	tx, err := types.SignNewTx(from.ec, types.LatestSignerForChainID(big.NewInt(298)), &types.DynamicFeeTx{
		ChainID: big.NewInt(298), Nonce: nonce, To: to, Gas: gas, Value: hedera.Tinybar(1).Weibar(),
		GasFeeCap: hedera.Tinybar(100).Weibar(), GasTipCap: new(big.Int),
	})
	raw, err2 := must(t, tx, err).MarshalBinary()
	return &hapi.TransactionBody{Data: &hapi.TransactionBody_EthereumTransaction{
		EthereumTransaction: &hapi.EthereumTransactionBody{EthereumData: must(t, raw, err2)},
	}}
}

func submit(t testing.TB, n *Node, tx *hapi.Transaction) hedera.Status {
	t.Helper()
	response, err := n.Submit(t.Context(), tx)
	return must(t, response, err).GetNodeTransactionPrecheckCode()
}

func receipt(t testing.TB, n *Node, id *hapi.TransactionID) *hapi.TransactionGetReceiptResponse {
	t.Helper()
	response, err := n.Query(t.Context(), &hapi.Query{Query: &hapi.Query_TransactionGetReceipt{
		TransactionGetReceipt: &hapi.TransactionGetReceiptQuery{TransactionID: id, IncludeChildReceipts: true, IncludeDuplicates: true},
	}})
	return must(t, response, err).GetTransactionGetReceipt()
}
