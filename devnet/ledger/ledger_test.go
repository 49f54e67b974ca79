package ledger

import (
	"crypto/ecdsa"
	"crypto/sha512"
	"encoding/binary"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// rig is a ledger with ways to submit to it.
type rig struct {
	t testing.TB
	*Ledger
	start int32 // makes transaction ids differ
}

func newRig(t testing.TB, cfg Config) *rig {
	t.Helper()
	l := must.Get(New(cfg))(t)
	return &rig{t: t, Ledger: l}
}

// party is an account whose key the test holds.
type party struct {
	id      hedera.ID
	key     *ecdsa.PrivateKey
	address common.Address
}

func dev(t testing.TB, n int) party {
	t.Helper()
	a := devaccounts.All()[n]
	key := must.Get(crypto.HexToECDSA(a.PrivateKey))(t)
	return party{id: a.ID, key: key, address: crypto.PubkeyToAddress(key.PublicKey)}
}

func fresh(t testing.TB, seed byte) party {
	t.Helper()
	key := must.Get(crypto.ToECDSA(common.LeftPadBytes([]byte{seed, 1, 2, 3}, 32)))(t)
	return party{key: key, address: crypto.PubkeyToAddress(key.PublicKey)}
}

const (
	price     = DefaultGasPrice
	weiPrice  = int64(price) * hedera.WeibarPerTinybar
	testChain = DefaultChainID
)

func wei(t hedera.Tinybar) *big.Int { return t.Weibar() }

// submit signs a body with ECDSA keys and handles it.
func (r *rig) submit(payer hedera.ID, body *hapi.TransactionBody, keys ...*ecdsa.PrivateKey) *history.Record {
	r.t.Helper()
	r.start++
	id := hedera.TransactionID{Payer: payer, ValidStart: hedera.Timestamp{Seconds: 1_700_000_000, Nanos: r.start}}
	return r.Handle(r.submission(id, body, keys...))
}

// signed is a body as it is signed, and the signatures.
func (r *rig) signed(body *hapi.TransactionBody, keys ...*ecdsa.PrivateKey) ([]byte, []*hapi.SignaturePair) {
	r.t.Helper()
	body.TransactionFee = 100_000_000
	if file := body.GetFileCreate(); file != nil && file.ExpirationTime == nil {
		file.ExpirationTime = &hapi.Timestamp{Seconds: 4_000_000_000} // of which few tests say anything
	}
	raw := must.Get(proto.Marshal(body))(r.t)
	pairs := make([]*hapi.SignaturePair, 0, len(keys))
	for _, key := range keys {
		signature := must.Get(crypto.Sign(crypto.Keccak256(raw), key))(r.t)
		pairs = append(pairs, &hapi.SignaturePair{
			PubKeyPrefix: crypto.CompressPubkey(&key.PublicKey),
			Signature:    &hapi.SignaturePair_ECDSASecp256K1{ECDSASecp256K1: signature[:64]},
		})
	}
	return raw, pairs
}

func (r *rig) submission(id hedera.TransactionID, body *hapi.TransactionBody, keys ...*ecdsa.PrivateKey) *core.Submission {
	r.t.Helper()
	raw, pairs := r.signed(body, keys...)
	var nonce [8]byte
	binary.BigEndian.PutUint32(nonce[:], uint32(id.ValidStart.Nanos))
	sub := &core.Submission{
		Body: body, ID: id, Payer: id.Payer, Hash: sha512.Sum384(append(raw, nonce[:]...)), Size: len(raw),
		Signatures: hapikey.NewSignatures(raw, pairs), Node: hedera.Entity(3),
	}
	if e := body.GetEthereumTransaction(); e != nil && e.CallData == nil {
		if tx, err := eth.DecodeTx(e.EthereumData); err == nil {
			sub.Ethereum = tx
		}
	}
	return sub
}

// ethereum submits a signed Ethereum transaction, paid for by dev account 9.
func (r *rig) ethereum(from party, fields types.TxData) *history.Record {
	r.t.Helper()
	return r.relayed(from, fields, 0)
}

func (r *rig) relayed(from party, fields types.TxData, allowance hedera.Tinybar) *history.Record {
	r.t.Helper()
	relayer := dev(r.t, 9)
	return r.submit(relayer.id, ethereumBody(r.t, from, fields, allowance), relayer.key)
}

func ethereumBody(t testing.TB, from party, fields types.TxData, allowance hedera.Tinybar) *hapi.TransactionBody {
	t.Helper()
	tx := must.Get(types.SignNewTx(from.key, types.LatestSignerForChainID(big.NewInt(testChain)), fields))(t)
	raw := must.Get(tx.MarshalBinary())(t)
	return core.BodyOf(&hapi.EthereumTransactionBody{EthereumData: raw, MaxGasAllowance: int64(allowance)})
}

// dynamic is a type 2 transaction at a price above the network's.
func dynamic(nonce uint64, to *common.Address, value hedera.Tinybar, gas uint64, data []byte) *types.DynamicFeeTx {
	return &types.DynamicFeeTx{
		ChainID: big.NewInt(testChain), Nonce: nonce, To: to, Value: wei(value), Gas: gas, Data: data,
		GasFeeCap: big.NewInt(2 * weiPrice), GasTipCap: big.NewInt(weiPrice),
	}
}

func (r *rig) balance(a common.Address) hedera.Tinybar {
	r.t.Helper()
	acct, ok := r.View().AccountByAddress(a)
	if !ok {
		r.t.Fatalf("no account at %s", a)
	}
	return acct.Balance
}

func (r *rig) want(rec *history.Record, status hedera.Status) {
	r.t.Helper()
	if rec.Status != status {
		message := ""
		if rec.Result != nil {
			message = rec.Result.ErrorMessage
		}
		r.t.Fatalf("status %s (%s), want %s", rec.Status, message, status)
	}
}

func TestTransfer(t *testing.T) {
	r := newRig(t, Config{})
	from, to := dev(t, 0), dev(t, 1)
	before, beforeTo := r.balance(from.address), r.balance(to.address)
	rec := r.ethereum(from, dynamic(0, &to.address, 5, 100_000, nil))
	r.want(rec, hapi.ResponseCodeEnum_SUCCESS)
	if got, want := before-r.balance(from.address), 21_000*price+5; got != want {
		t.Errorf("sender paid %d tinybar, want %d", got, want)
	}
	if got := r.balance(to.address) - beforeTo; got != 5 {
		t.Errorf("receiver got %d tinybar, want 5", got)
	}
	if rec.Result.GasUsed != 21_000 || rec.Result.Index != 0 || rec.Fee != 21_000*price {
		t.Errorf("result %+v", rec.Result)
	}
	sum := hedera.Tinybar(0)
	for _, transfer := range rec.Transfers {
		sum += transfer.Amount
	}
	if sum != 0 || len(rec.Transfers) != 3 {
		t.Errorf("transfers %v", rec.Transfers)
	}
	b := r.View().LatestBlock()
	if b.Number != 1 || len(b.Records) != 1 || b.GasUsed != 21_000 || rec.Block != 1 {
		t.Errorf("block %+v", b)
	}
}
