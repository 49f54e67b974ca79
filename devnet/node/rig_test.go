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
	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

func newNetwork(t testing.TB, cfg Config) *Network {
	t.Helper()
	if cfg.Ledger == nil {
		cfg.Ledger = must.Get(ledger.New(ledger.Config{Nodes: NodeAccounts(max(cfg.Nodes, 1))}))(t)
	}
	return must.Get(New(cfg))(t)
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
	p := payer{id: a.ID, key: must.Get(hedera.ParsePrivateKey(a.PrivateKey, format))(t), at: a.EVMAddress()}
	if format == hedera.FormatHexECDSA {
		p.ec = must.Get(crypto.HexToECDSA(a.PrivateKey))(t)
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
	return o.envelope(must.Get(proto.Marshal(b))(o.t), keys...)
}

func (o *order) envelope(raw []byte, keys ...*hedera.PrivateKey) *hapi.Transaction {
	o.t.Helper()
	sigs := &hapi.SignatureMap{}
	for _, key := range keys {
		s := must.Get(key.Sign(raw))(o.t)
		pair := &hapi.SignaturePair{PubKeyPrefix: key.Public()}
		if key.Kind() == hedera.Ed25519 {
			pair.Signature = &hapi.SignaturePair_Ed25519{Ed25519: s}
		} else {
			pair.Signature = &hapi.SignaturePair_ECDSASecp256K1{ECDSASecp256K1: s}
		}
		sigs.SigPair = append(sigs.SigPair, pair)
	}
	return &hapi.Transaction{SignedTransactionBytes: must.Get(proto.Marshal(&hapi.SignedTransaction{BodyBytes: raw, SigMap: sigs}))(o.t)}
}

func transfer(from, to *hapi.AccountID, amount int64) *hapi.TransactionBody {
	return core.BodyOf(&hapi.CryptoTransferTransactionBody{Transfers: &hapi.TransferList{
		AccountAmounts: []*hapi.AccountAmount{{AccountID: from, Amount: -amount}, {AccountID: to, Amount: amount}},
	}})
}

func alias(a common.Address) *hapi.AccountID {
	return &hapi.AccountID{Account: &hapi.AccountID_Alias{Alias: a.Bytes()}}
}

func ethereum(t testing.TB, from payer, nonce uint64, to *common.Address, gas uint64) *hapi.TransactionBody {
	t.Helper()
	tx := types.MustSignNewTx(from.ec, types.LatestSignerForChainID(big.NewInt(298)), &types.DynamicFeeTx{
		ChainID: big.NewInt(298), Nonce: nonce, To: to, Gas: gas, Value: hedera.Tinybar(1).Weibar(),
		GasFeeCap: hedera.Tinybar(100).Weibar(), GasTipCap: new(big.Int),
	})
	return core.BodyOf(&hapi.EthereumTransactionBody{EthereumData: must.Get(tx.MarshalBinary())(t)})
}

func submit(t testing.TB, n *Node, tx *hapi.Transaction) hedera.Status {
	t.Helper()
	return must.Get(n.Submit(t.Context(), tx))(t).GetNodeTransactionPrecheckCode()
}

func receipt(t testing.TB, n *Node, id *hapi.TransactionID) *hapi.TransactionGetReceiptResponse {
	t.Helper()
	return must.Get(n.Query(t.Context(), &hapi.Query{Query: &hapi.Query_TransactionGetReceipt{
		TransactionGetReceipt: &hapi.TransactionGetReceiptQuery{TransactionID: id, IncludeChildReceipts: true, IncludeDuplicates: true},
	}}))(t).GetTransactionGetReceipt()
}

// An account or a contract tells whom it stakes to; the day since which is told only of a stake to a node.
func TestStakingInfo(t *testing.T) {
	since := hedera.Timestamp{Seconds: 1_767_225_600}
	for name, info := range map[string]func(state.Account) *hapi.StakingInfo{
		"account":  func(a state.Account) *hapi.StakingInfo { return accountInfo(a).GetStakingInfo() },
		"contract": func(a state.Account) *hapi.StakingInfo { return contractInfo(a, 0).GetStakingInfo() },
	} {
		if got := info(state.Account{Description: state.Description{StakedNode: -1}}); got.GetStakedId() != nil || got.GetStakePeriodStart() != nil {
			t.Errorf("%s without a stake: %v", name, got)
		}
		node := info(state.Account{Description: state.Description{DeclineReward: true, StakePeriodStart: since}})
		if _, chosen := node.GetStakedId().(*hapi.StakingInfo_StakedNodeId); !chosen || !node.GetDeclineReward() || node.GetStakePeriodStart().GetSeconds() != since.Seconds {
			t.Errorf("%s with a node: %v", name, node)
		}
		if got := info(state.Account{Description: state.Description{StakedNode: -1, StakedAccount: hedera.Entity(2)}}); got.GetStakedAccountId().GetAccountNum() != 2 || got.GetStakePeriodStart() != nil {
			t.Errorf("%s with an account: %v", name, got)
		}
	}
}
