package node

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"encoding/hex"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

func TestPrecheck(t *testing.T) {
	p, other := dev(t, 0), dev(t, 1)
	now := time.Now()
	to := other.id.AccountID()
	start := func(at time.Time) *hapi.TransactionID {
		return &hapi.TransactionID{
			TransactionValidStart: &hapi.Timestamp{Seconds: at.Unix()}, AccountID: p.id.AccountID(),
		}
	}
	yes := true
	tests := []struct {
		name string
		edit func(*hapi.TransactionBody)
		key  *hedera.PrivateKey
		want hedera.Status
	}{
		{"accepted", nil, p.key, hapi.ResponseCodeEnum_OK},
		{"no id", func(b *hapi.TransactionBody) { b.TransactionID = &hapi.TransactionID{} }, p.key, hapi.ResponseCodeEnum_INVALID_TRANSACTION_ID},
		{"id for a child", func(b *hapi.TransactionBody) {
			b.TransactionID = start(now.Add(-5 * time.Second))
			b.TransactionID.Nonce = 1
		}, p.key, hapi.ResponseCodeEnum_TRANSACTION_ID_FIELD_NOT_ALLOWED},
		{"scheduled id", func(b *hapi.TransactionBody) {
			b.TransactionID = start(now.Add(-5 * time.Second))
			b.TransactionID.Scheduled = &yes
		}, p.key, hapi.ResponseCodeEnum_TRANSACTION_ID_FIELD_NOT_ALLOWED},
		{"payer by alias", func(b *hapi.TransactionBody) {
			b.TransactionID = start(now.Add(-5 * time.Second))
			b.TransactionID.AccountID = alias(p.at)
		}, p.key, hapi.ResponseCodeEnum_PAYER_ACCOUNT_NOT_FOUND},
		{"unknown payer", func(b *hapi.TransactionBody) {
			b.TransactionID = start(now.Add(-5 * time.Second))
			b.TransactionID.AccountID = hedera.Entity(9999).AccountID()
		}, p.key, hapi.ResponseCodeEnum_PAYER_ACCOUNT_NOT_FOUND},
		{"other node", func(b *hapi.TransactionBody) { b.NodeAccountID = hedera.Entity(4).AccountID() }, p.key, hapi.ResponseCodeEnum_INVALID_NODE_ACCOUNT},
		{"too early", func(b *hapi.TransactionBody) { b.TransactionID = start(now.Add(time.Hour)) }, p.key, hapi.ResponseCodeEnum_INVALID_TRANSACTION_START},
		{"too late", func(b *hapi.TransactionBody) { b.TransactionID = start(now.Add(-111 * time.Second)) }, p.key, hapi.ResponseCodeEnum_TRANSACTION_EXPIRED},
		{"too short", func(b *hapi.TransactionBody) { b.TransactionValidDuration = &hapi.Duration{Seconds: 14} }, p.key, hapi.ResponseCodeEnum_INVALID_TRANSACTION_DURATION},
		{"too long", func(b *hapi.TransactionBody) { b.TransactionValidDuration = &hapi.Duration{Seconds: 181} }, p.key, hapi.ResponseCodeEnum_INVALID_TRANSACTION_DURATION},
		{"long memo", func(b *hapi.TransactionBody) { m := string(make([]byte, 101)); b.Memo = &m }, p.key, hapi.ResponseCodeEnum_MEMO_TOO_LONG},
		{"zero byte in memo", func(b *hapi.TransactionBody) { m := "a\x00b"; b.Memo = &m }, p.key, hapi.ResponseCodeEnum_INVALID_ZERO_BYTE_IN_STRING},
		{"low fee", func(b *hapi.TransactionBody) { b.TransactionFee = 1 }, p.key, hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE},
		{"wrong key", nil, other.key, hapi.ResponseCodeEnum_INVALID_SIGNATURE},
		{"unsigned", nil, nil, hapi.ResponseCodeEnum_INVALID_SIGNATURE},
		{"sum not zero", func(b *hapi.TransactionBody) {
			b.GetCryptoTransfer().GetTransfers().GetAccountAmounts()[0].Amount = -4
		}, p.key, hapi.ResponseCodeEnum_INVALID_ACCOUNT_AMOUNTS},
		{"no data", func(b *hapi.TransactionBody) { b.Data = nil }, p.key, hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY},
		{"not an ethereum transaction", func(b *hapi.TransactionBody) {
			b.Data = &hapi.TransactionBody_EthereumTransaction{EthereumTransaction: &hapi.EthereumTransactionBody{EthereumData: []byte{2, 1}}}
		}, p.key, hapi.ResponseCodeEnum_INVALID_ETHEREUM_TRANSACTION},
		{"intrinsic gas", func(b *hapi.TransactionBody) { b.Data = ethereum(t, p, 0, &other.at, 20_999).Data }, p.key, hapi.ResponseCodeEnum_INSUFFICIENT_GAS},
		{"value to nobody", func(b *hapi.TransactionBody) { b.Data = ethereum(t, p, 0, &common.Address{}, 21_000).Data }, p.key, hapi.ResponseCodeEnum_INVALID_SOLIDITY_ADDRESS},
		{"allowance beyond the balance", func(b *hapi.TransactionBody) {
			b.Data = ethereum(t, p, 0, &other.at, 21_000).Data
			b.GetEthereumTransaction().MaxGasAllowance = 1 << 62
		}, p.key, hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE},
		{"too large", func(b *hapi.TransactionBody) {
			b.Data = &hapi.TransactionBody_FileCreate{FileCreate: &hapi.FileCreateTransactionBody{Contents: make([]byte, 6_144)}}
		}, p.key, hapi.ResponseCodeEnum_TRANSACTION_OVERSIZE},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNetwork(t, Config{}).Nodes()[0]
			o := &order{t: t}
			b := transfer(p.id.AccountID(), to, 5)
			if tt.edit != nil {
				tt.edit(b)
			}
			var keys []*hedera.PrivateKey
			if tt.key != nil {
				keys = append(keys, tt.key)
			}
			tx := o.sign(o.body(p, b), keys...)
			if got := submit(t, n, tx); got != tt.want {
				t.Fatalf("precheck %s, want %s", got, tt.want)
			}
			handled := receipt(t, n, b.TransactionID).GetReceipt() != nil
			if handled != (tt.want == hapi.ResponseCodeEnum_OK) {
				t.Errorf("handled: %v", handled)
			}
		})
	}
}

func TestUnsupportedBody(t *testing.T) {
	n := newNetwork(t, Config{}).Nodes()[0]
	o, p := &order{t: t}, dev(t, 0)
	raw := append(must.Get(proto.Marshal(o.body(p, &hapi.TransactionBody{})))(t), 0xba, 0x01, 0x00) // field 23, freeze, empty
	if got := submit(t, n, o.envelope(raw, p.key)); got != hapi.ResponseCodeEnum_NOT_SUPPORTED {
		t.Errorf("precheck %s", got)
	}
}

func TestMalformedEnvelope(t *testing.T) {
	n := newNetwork(t, Config{}).Nodes()[0]
	for name, tt := range map[string]struct {
		tx   *hapi.Transaction
		want hedera.Status
	}{
		"empty":     {&hapi.Transaction{}, hapi.ResponseCodeEnum_INVALID_TRANSACTION},
		"garbage":   {&hapi.Transaction{SignedTransactionBytes: []byte{0xff, 0xff}}, hapi.ResponseCodeEnum_INVALID_TRANSACTION},
		"no body":   {&hapi.Transaction{SignedTransactionBytes: []byte{0x12, 0x00}}, hapi.ResponseCodeEnum_INVALID_TRANSACTION},
		"body":      {&hapi.Transaction{SignedTransactionBytes: []byte{0x0a, 0x01, 0xff}}, hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY},
		"old form":  {&hapi.Transaction{SignedTransactionBytes: []byte{0x0a, 0x01, 0x08}, SigMap: &hapi.SignatureMap{}}, hapi.ResponseCodeEnum_INVALID_TRANSACTION}, //nolint:staticcheck // the old form is what is tested
		"oversized": {&hapi.Transaction{SignedTransactionBytes: make([]byte, maxJumboSize)}, hapi.ResponseCodeEnum_TRANSACTION_OVERSIZE},
	} {
		if got := submit(t, n, tt.tx); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

func TestDuplicate(t *testing.T) {
	network := newNetwork(t, Config{Nodes: 2})
	o, p := &order{t: t}, dev(t, 0)
	b := o.body(p, transfer(p.id.AccountID(), hedera.Entity(1003).AccountID(), 5))
	tx := o.sign(b, p.key)
	if got := submit(t, network.Nodes()[0], tx); got != hapi.ResponseCodeEnum_OK {
		t.Fatal(got)
	}
	if got := submit(t, network.Nodes()[0], tx); got != hapi.ResponseCodeEnum_DUPLICATE_TRANSACTION {
		t.Errorf("again at the same node: %s", got)
	}
	b.NodeAccountID = hedera.Entity(4).AccountID()
	if got := submit(t, network.Nodes()[1], o.sign(b, p.key)); got != hapi.ResponseCodeEnum_DUPLICATE_TRANSACTION {
		t.Errorf("at another node, after consensus: %s", got)
	}
}

// A node that has not seen a transaction yet accepts it although another has it:
// the second copy gets a record of its own.
func TestDuplicateAtConsensus(t *testing.T) {
	network := newNetwork(t, Config{Nodes: 2, Latency: time.Hour})
	o, p := &order{t: t}, dev(t, 0)
	b := o.body(p, transfer(p.id.AccountID(), hedera.Entity(1003).AccountID(), 5))
	for i, n := range network.Nodes() {
		b.NodeAccountID = n.Account().AccountID()
		if got := submit(t, n, o.sign(b, p.key)); got != hapi.ResponseCodeEnum_OK {
			t.Fatalf("node %d: %s", i, got)
		}
	}
	n := network.Nodes()[0]
	if got := receipt(t, n, b.TransactionID); got.GetReceipt().GetStatus() != hapi.ResponseCodeEnum_UNKNOWN {
		t.Errorf("before consensus: %v", got)
	}
	flush(t, network)
	got := receipt(t, n, b.TransactionID)
	if got.GetReceipt().GetStatus() != hapi.ResponseCodeEnum_SUCCESS || len(got.GetDuplicateTransactionReceipts()) != 1 ||
		got.GetDuplicateTransactionReceipts()[0].GetStatus() != hapi.ResponseCodeEnum_DUPLICATE_TRANSACTION {
		t.Errorf("receipts %v", got)
	}
}

// flush handles everything that is on its way, in order, at once.
func flush(t testing.TB, n *Network) {
	t.Helper()
	for {
		n.gossip.mu.Lock()
		for i := range n.gossip.pending {
			n.gossip.pending[i].due = n.gossip.pending[i].due.Add(-2 * time.Hour)
		}
		n.gossip.mu.Unlock()
		sub, _ := n.gossip.due()
		if sub == nil {
			return
		}
		n.cfg.Ledger.Handle(sub)
	}
}

func TestSigningKeys(t *testing.T) {
	for name, n := range map[string]int{"secp256k1 with alias": 0, "secp256k1": 10, "ed25519": 20, "mnemonic": 30} {
		t.Run(name, func(t *testing.T) {
			node := newNetwork(t, Config{}).Nodes()[0]
			o, p := &order{t: t}, dev(t, n)
			b := o.body(p, transfer(p.id.AccountID(), hedera.Entity(1003).AccountID(), 5))
			tx := o.sign(b, p.key)
			if got := submit(t, node, tx); got != hapi.ResponseCodeEnum_OK {
				t.Fatal(got)
			}
			if got := receipt(t, node, b.TransactionID).GetReceipt().GetStatus(); got != hapi.ResponseCodeEnum_SUCCESS {
				t.Error(got)
			}
		})
	}
}

// The envelopes were made by the official JavaScript SDK.
func TestEnvelopesOfTheOfficialSDK(t *testing.T) {
	const ethereumBody = "0a180a0b0880e2cfaa0610959aef3a12070800100018ea071800120608001000180318c0b8eafb032202087832009203730a7102f87082012a80808502dc6c08008252089467d8d32e9bf1a9968a5ff53b87d777aa8ebbee698502540be40080c080a01111111111111111111111111111111111111111111111111111111111111111a02222222222222222222222222222222222222222222222222222222222222222"
	tests := []struct{ name, tx, body, hash, public string }{
		{
			"ethereum, secp256k1",
			"2a90020aa401" + ethereumBody + "12670a650a2102b3c641418e89452cd5202adfd4758f459acb8e364f741fd16cd2db79835d39d23240de662c42003cc37da2e8c2a7f7da8a57fe7e4974a4b629f073f78906aa3e1ced27a3a3aa97837c0a7add5f3ee710b024741beeb773bfedd4747014c8e6dc1eec",
			ethereumBody,
			"3fae0c4b8de2c96f96d76a5e694af53e79e25c2c0555b469440fb3abac7014bdda37040c947d8668f45ac3af9710dcb9",
			"02b3c641418e89452cd5202adfd4758f459acb8e364f741fd16cd2db79835d39d2",
		},
		{
			"ethereum, ed25519",
			"2a8f020aa401" + ethereumBody + "12660a640a200aa8e21064c61eab86e2a9c164565b4e7a9a4146106e0a6cd03a8c395a110e921a404fbdfe2b3a562cc6b3351c3bb284d6acb22b50462449e1c9f41297f4e083404a038c1680d833e672bf6060762676e4a66527ea5d1f743ff4b2ac778ebf81b208",
			ethereumBody,
			"e10be45029a7b0d692c2aa48d495653021a36da50413cddb5ca2dfe441be328ed634c005b77f103316950e9651dbce27",
			"0aa8e21064c61eab86e2a9c164565b4e7a9a4146106e0a6cd03a8c395a110e92",
		},
		{
			"transfer, secp256k1",
			"2acf010a640a180a0b0880e2cfaa0610959aef3a12070800100018ea071800120608001000180318c0b8eafb032202087832016d72330a310a0d0a070800100018ea07100918000a200a1a08001000221405fba803be258049a27b820088bab1cad2058871100a180012670a650a2102b3c641418e89452cd5202adfd4758f459acb8e364f741fd16cd2db79835d39d2324062b2ca04179d11a3f5b8910295ef9bb965a8675e9db59539a23dc50c964e0de823891e83ad82115e118e73e1e7b548a325dba2248976bd5b32ef05237f6b9054",
			"0a180a0b0880e2cfaa0610959aef3a12070800100018ea071800120608001000180318c0b8eafb032202087832016d72330a310a0d0a070800100018ea07100918000a200a1a08001000221405fba803be258049a27b820088bab1cad2058871100a1800",
			"7371bcef7382caf32bd2cb43e8a62e7d3dd6ffa3d5801d06d7d896888317e51fb4a35886077c2bbd9ad983bdecbcfa23",
			"02b3c641418e89452cd5202adfd4758f459acb8e364f741fd16cd2db79835d39d2",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tx := new(hapi.Transaction)
			must.Do(t, proto.Unmarshal(bytesOf(t, tt.tx), tx))
			sub, code := Decode(tx)
			if code != hapi.ResponseCodeEnum_OK {
				t.Fatal(code)
			}
			if got := hex.EncodeToString(sub.Hash[:]); got != tt.hash {
				t.Errorf("hash %s", got)
			}
			if sub.ID.String() != "0.0.1002@1700000000.123456789" {
				t.Errorf("id %s", sub.ID)
			}
			public := bytesOf(t, tt.public)
			key := &hapi.Key{Key: &hapi.Key_ECDSASecp256K1{ECDSASecp256K1: public}}
			if len(public) == 32 {
				key = &hapi.Key{Key: &hapi.Key_Ed25519{Ed25519: public}}
			}
			if !sub.Signatures.Signed(key) {
				t.Error("the signature does not verify")
			}
			// One bit of the body in the envelope decides.
			spoilt := bytesOf(t, tt.tx)
			at := bytes.Index(spoilt, bytesOf(t, tt.body)) + len(tt.body)/2 - 1
			spoilt[at] ^= 1
			must.Do(t, proto.Unmarshal(spoilt, tx))
			if sub, _ := Decode(tx); sub.Signatures.Signed(key) {
				t.Error("the signature verifies over another body")
			}
		})
	}
}

func bytesOf(t testing.TB, text string) []byte {
	t.Helper()
	return must.Get(hex.DecodeString(text))(t)
}

// dial starts the network and connects to its first node.
func dial(t testing.TB, n *Network) *grpc.ClientConn {
	t.Helper()
	must.Do(t, n.Listen(t.Context()))
	must.Run(t, n.Run)
	conn := must.Get(grpc.NewClient(n.Addrs()[0], grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { must.Do(t, conn.Close()) })
	return conn
}

func TestOverGRPC(t *testing.T) {
	network := newNetwork(t, Config{Listen: "127.0.0.1:0"})
	conn := dial(t, network)
	o, p := &order{t: t}, dev(t, 0)
	fresh := common.HexToAddress("0x00112233445566778899aabbccddeeff00112233")
	b := o.body(p, transfer(p.id.AccountID(), alias(fresh), 700))
	response := new(hapi.TransactionResponse)
	must.Do(t, conn.Invoke(t.Context(), hapi.MethodCryptoTransfer, o.sign(b, p.key), response))
	if response.GetNodeTransactionPrecheckCode() != hapi.ResponseCodeEnum_OK {
		t.Fatal(response)
	}

	answer := new(hapi.Response)
	ask := func(method string, query *hapi.Query) *hapi.Response {
		t.Helper()
		answer = new(hapi.Response)
		must.Do(t, conn.Invoke(t.Context(), method, query, answer))
		return answer
	}
	kind := hapi.ResponseType_COST_ANSWER
	query := &hapi.TransactionGetRecordQuery{
		Header: &hapi.QueryHeader{ResponseType: &kind}, TransactionID: b.TransactionID, IncludeChildRecords: true,
	}
	cost := ask(hapi.MethodGetTxRecordByTxID, &hapi.Query{Query: &hapi.Query_TransactionGetRecord{TransactionGetRecord: query}})
	if h := cost.GetTransactionGetRecord().GetHeader(); h.GetCost() != queryCost || h.GetResponseType() != kind {
		t.Errorf("cost answer %v", h)
	}
	query.Header = nil
	record := ask(hapi.MethodGetTxRecordByTxID, &hapi.Query{Query: &hapi.Query_TransactionGetRecord{TransactionGetRecord: query}}).GetTransactionGetRecord()
	list := record.GetTransactionRecord().GetTransferList().GetAccountAmounts()
	if len(list) != 2 || list[0].GetAmount() != -700 || list[1].GetAmount() != 700 {
		t.Fatalf("transfers %v", list)
	}
	children := record.GetChildTransactionRecords()
	if len(children) != 1 || children[0].GetReceipt().GetAccountID().GetAccountNum() != list[1].GetAccountID().GetAccountNum() {
		t.Fatalf("children %v", children)
	}
	info := ask(hapi.MethodGetAccountInfo, &hapi.Query{Query: &hapi.Query_CryptoGetInfo{
		CryptoGetInfo: &hapi.CryptoGetInfoQuery{AccountID: alias(fresh)},
	}}).GetCryptoGetInfo().GetAccountInfo()
	if info.GetBalance() != 700 || info.GetContractAccountID() != hex.EncodeToString(fresh[:]) || info.GetKey().GetKeyList() == nil {
		t.Errorf("info %v", info)
	}
	missing := ask(hapi.MethodCryptoGetBalance, &hapi.Query{Query: &hapi.Query_CryptogetAccountBalance{
		CryptogetAccountBalance: &hapi.CryptoGetAccountBalanceQuery{
			BalanceSource: &hapi.CryptoGetAccountBalanceQuery_AccountID{AccountID: hedera.Entity(77_777).AccountID()},
		},
	}})
	if got := missing.GetCryptogetAccountBalance().GetHeader().GetNodeTransactionPrecheckCode(); got != hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID {
		t.Errorf("balance of nobody: %s", got)
	}
	if err := conn.Invoke(t.Context(), "/proto.FreezeService/freeze", o.sign(b, p.key), response); err != nil ||
		response.GetNodeTransactionPrecheckCode() != hapi.ResponseCodeEnum_NOT_SUPPORTED {
		t.Errorf("freeze: %v, %v", response, err)
	}
	err := conn.Invoke(t.Context(), "/proto.CryptoService/getLiveHash", &hapi.Query{}, answer)
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("query of a live hash: %v", err)
	}
}

// A bug costs one call, not the node.
func TestPanicIsContained(t *testing.T) {
	bug := true
	conn := dial(t, newNetwork(t, Config{Listen: "127.0.0.1:0", Fault: func(Call) Fault {
		if bug {
			panic("a bug")
		}
		return Fault{}
	}}))
	ask := func() error {
		return conn.Invoke(t.Context(), hapi.MethodGetVersionInfo, &hapi.Query{
			Query: &hapi.Query_NetworkGetVersionInfo{NetworkGetVersionInfo: &hapi.NetworkGetVersionInfoQuery{}},
		}, new(hapi.Response))
	}
	if err := ask(); status.Code(err) != codes.Internal {
		t.Errorf("error %v", err)
	}
	bug = false
	if err := ask(); err != nil {
		t.Error(err)
	}
}

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
	b.NodeAccountID = cmp.Or(b.NodeAccountID, hedera.Entity(3).AccountID())
	b.TransactionFee = cmp.Or(b.TransactionFee, 100_000_000)
	b.TransactionValidDuration = cmp.Or(b.TransactionValidDuration, &hapi.Duration{Seconds: 120})
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
