package ethapi

import (
	"crypto/ecdsa"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/big"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/mirrorrest"
	"lockstep/internal/eth"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// network is the development network's ledger behind a real mirror node interface,
// and the read side over it.
type network struct {
	*relay
	ledger *ledger.Ledger
	key    *ecdsa.PrivateKey
	sender common.Address
	starts int64
}

func newNetwork(t *testing.T, blockTime time.Duration) *network {
	t.Helper()
	return newNetworkOf(t, ledger.Config{BlockTime: blockTime})
}

func newNetworkOf(t *testing.T, c ledger.Config) *network {
	t.Helper()
	return newNetworkWith(t, c)
}

func newNetworkWith(t *testing.T, c ledger.Config, change ...func(*settings)) *network {
	t.Helper()
	l := must.Get(ledger.New(c))(t)
	must.Run(t, l.Run)
	server := httptest.NewServer(mirrorrest.New(mirrorrest.Config{View: l.View, Log: slog.New(slog.DiscardHandler)}))
	t.Cleanup(server.Close)
	return newNetworkOver(t, l, server, change...)
}

// newNetworkOver is the read side over a mirror node interface to a ledger.
func newNetworkOver(t testing.TB, l *ledger.Ledger, server *httptest.Server, change ...func(*settings)) *network {
	t.Helper()
	n := newSender(t, l)
	n.relay = newRelay(t, &mirrorNode{Server: server}, change...)
	return n
}

// newSender can bring transactions to a ledger; nobody reads it yet.
func newSender(t testing.TB, l *ledger.Ledger) *network {
	t.Helper()
	key := must.Get(crypto.HexToECDSA(devaccounts.All()[0].PrivateKey))(t)
	return &network{relay: &relay{t: t}, ledger: l, key: key, sender: crypto.PubkeyToAddress(key.PublicKey)}
}

// send brings a transaction to consensus.
func (n *network) send(data types.TxData) *types.Transaction {
	n.t.Helper()
	return n.sendFor(types.LatestSignerForChainID(big.NewInt(298)), data)
}

// sendFor is send with a signature for any chain.
func (n *network) sendFor(signer types.Signer, data types.TxData) *types.Transaction {
	n.t.Helper()
	tx := types.MustSignNewTx(n.key, signer, data)
	raw := must.Get(tx.MarshalBinary())(n.t)
	decoded := must.Get(eth.DecodeTx(raw))(n.t)
	n.handle(core.BodyOf(&hapi.EthereumTransactionBody{EthereumData: raw, MaxGasAllowance: 100_000_000}), decoded)
	return tx
}

// handle brings a transaction of the operator's to consensus; tx is the Ethereum transaction in it, if there is one.
func (n *network) handle(body *hapi.TransactionBody, tx *eth.Tx) *history.Record {
	n.t.Helper()
	n.starts++
	start := hedera.FromNanos(time.Now().Add(-time.Minute).UnixNano() + n.starts)
	body.TransactionID = &hapi.TransactionID{
		AccountID: hedera.Entity(2).AccountID(), TransactionValidStart: start.Message(),
	}
	body.NodeAccountID, body.TransactionFee, body.TransactionValidDuration = hedera.Entity(3).AccountID(), 1_000_000_000, &hapi.Duration{Seconds: 120}
	signed := must.Get(proto.Marshal(body))(n.t)
	operator := must.Get(hedera.ParsePrivateKey(devaccounts.OperatorKey, hedera.FormatHexEd25519))(n.t)
	signature := must.Get(operator.Sign(signed))(n.t)
	return n.ledger.Handle(&core.Submission{
		Body: body, ID: hedera.TransactionID{Payer: hedera.Entity(2), ValidStart: start}, Payer: hedera.Entity(2),
		Hash: sha512.Sum384(signed), Size: len(signed) + 100, Node: hedera.Entity(3), Ethereum: tx,
		Signatures: hapikey.NewSignatures(signed, []*hapi.SignaturePair{{
			PubKeyPrefix: operator.Public(), Signature: &hapi.SignaturePair_Ed25519{Ed25519: signature},
		}}),
	})
}

func (n *network) dynamic(nonce uint64, to *common.Address, value int64, gas uint64, data []byte) *types.Transaction {
	n.t.Helper()
	return n.send(&types.DynamicFeeTx{
		ChainID: big.NewInt(298), Nonce: nonce, GasFeeCap: big.NewInt(800_000_000_000), GasTipCap: new(big.Int),
		Gas: gas, To: to, Value: new(big.Int).Mul(big.NewInt(value), big.NewInt(hedera.WeibarPerTinybar)), Data: data,
	})
}

func (n *network) quantity(method, params string) *big.Int {
	n.t.Helper()
	var q hexutil.Big
	answer := n.call(method, params)
	if answer.Error != nil {
		n.t.Fatalf("%s%s: %s", method, params, answer)
	}
	must.Do(n.t, json.Unmarshal(answer.Result, &q))
	return q.ToInt()
}

func (n *network) receipt(tx *types.Transaction) *types.Receipt {
	n.t.Helper()
	answer := n.call("eth_getTransactionReceipt", fmt.Sprintf(`["%s"]`, tx.Hash()))
	if answer.Error != nil || string(answer.Result) == "null" {
		n.t.Fatalf("receipt: %s", answer)
	}
	receipt := new(types.Receipt)
	must.Do(n.t, json.Unmarshal(answer.Result, receipt))
	return receipt
}

// A contract that counts its calls in slot 0, emits an event with the count, and
// returns it.
const counter = "6000546001018060005580600052" + // count + 1, stored, and in memory
	"7f0000000000000000000000000000000000000000000000000000000000c0ffee" + // topic
	"60206000a1" + // LOG1(0, 32, topic)
	"60206000f3"

func initCode(runtime string) []byte {
	code := common.FromHex(runtime)
	return append([]byte{0x60, byte(len(code)), 0x60, 0x0c, 0x60, 0x00, 0x39, 0x60, byte(len(code)), 0x60, 0x00, 0xf3}, code...)
}

// The hash zero is the hash of nothing, as any other that nobody has seen.
func TestNothingHasTheHashZero(t *testing.T) {
	n := newNetwork(t, 0)
	contract := n.receipt(n.dynamic(0, nil, 0, 500_000, initCode(counter))).ContractAddress
	n.dynamic(1, &contract, 0, 200_000, nil) // has a log
	zero := common.Hash{}.Hex()
	for method, params := range map[string]string{
		"eth_getTransactionByHash": `["%s"]`, "eth_getTransactionReceipt": `["%s"]`, "debug_getRawTransaction": `["%s"]`, "debug_traceTransaction": `["%s"]`,
		"eth_getBlockByHash": `["%s",false]`, "eth_getTransactionByBlockHashAndIndex": `["%s","0x0"]`, "eth_getBlockReceipts": `["%s"]`,
		"eth_getBlockTransactionCountByHash": `["%s"]`, "eth_getLogs": `[{"blockHash":"%s"}]`, "debug_traceBlockByHash": `["%s"]`,
	} {
		nothing, want := n.call(method, fmt.Sprintf(params, zero)).String(), n.call(method, fmt.Sprintf(params, "0x00"+zero[4:65]+"1")).String()
		if nothing != strings.ReplaceAll(want, "0x00"+zero[4:65]+"1", zero) {
			t.Errorf("%s of zero: %s; of one: %s", method, nothing, want)
		}
	}
}

// A filter may name a contract by both of its addresses. Its logs come once.
func TestLogsOfBothAddressesComeOnce(t *testing.T) {
	n := newNetwork(t, 0)
	contract := n.receipt(n.dynamic(0, nil, 0, 500_000, initCode(counter))).ContractAddress
	n.dynamic(1, &contract, 0, 200_000, nil)
	n.dynamic(2, &contract, 0, 200_000, nil)
	account, ok := n.ledger.View().AccountByAddress(contract)
	if !ok {
		t.Fatal("no contract")
	}
	var logs []types.Log
	answer := n.call("eth_getLogs", fmt.Sprintf(`[{"fromBlock":"0x0","address":["%s","%s","%s"]}]`, contract, account.ID.LongZero(), contract))
	if err := json.Unmarshal(answer.Result, &logs); err != nil || len(logs) != 2 {
		t.Errorf("%v: %s", err, answer)
	}
}

// Every figure that is read must agree with every other.
func TestOnDevnet(t *testing.T) {
	n := newNetwork(t, 0)
	receiver := common.HexToAddress("0x00000000000000000000000000000000000beef1")
	receiver[0] = 0x77
	start := n.quantity("eth_getBalance", fmt.Sprintf(`["%s","latest"]`, n.sender))
	legacy := n.send(&types.LegacyTx{Nonce: 0, GasPrice: big.NewInt(710_000_000_000), Gas: 1_000_000, To: &receiver, Value: big.NewInt(5e18)})
	deploy := n.dynamic(1, nil, 0, 500_000, initCode(counter))
	contract := n.receipt(deploy).ContractAddress
	calls := []*types.Transaction{n.dynamic(2, &contract, 0, 200_000, nil), n.dynamic(3, &contract, 0, 200_000, nil)}
	failed := n.dynamic(4, nil, 0, 100_000, common.FromHex("60006000fd"))
	refused := n.dynamic(9, &receiver, 1, 21_000, nil)

	spent := new(big.Int)
	for i, tx := range append([]*types.Transaction{legacy, deploy}, append(calls, failed)...) {
		receipt := n.receipt(tx)
		cost := new(big.Int).Mul(receipt.EffectiveGasPrice, new(big.Int).SetUint64(receipt.GasUsed))
		spent.Add(spent, cost)
		if receipt.Status == types.ReceiptStatusSuccessful {
			spent.Add(spent, tx.Value())
		}
		// The balance after each block is what the receipts say.
		block := hexutil.EncodeBig(receipt.BlockNumber)
		want := new(big.Int).Sub(start, spent)
		if got := n.quantity("eth_getBalance", fmt.Sprintf(`["%s","%s"]`, n.sender, block)); got.Cmp(want) != 0 {
			t.Errorf("balance after transaction %d: %d, want %d", i, got, want)
		}
		if got := n.quantity("eth_getTransactionCount", fmt.Sprintf(`["%s","%s"]`, n.sender, block)); got.Uint64() != uint64(i+1) {
			t.Errorf("nonce after transaction %d: %d", i, got)
		}
		var decoded types.Transaction
		unmarshal(t, n.call("eth_getTransactionByHash", fmt.Sprintf(`["%s"]`, tx.Hash())), &decoded)
		if from, err := types.Sender(types.LatestSignerForChainID(big.NewInt(298)), &decoded); err != nil || from != n.sender || decoded.Hash() != tx.Hash() {
			t.Errorf("transaction %d: from %s, %v", i, from, err)
		}
		if (receipt.Status == types.ReceiptStatusFailed) != (tx == failed) || types.CreateBloom(receipt) != receipt.Bloom {
			t.Errorf("receipt %d: %+v", i, receipt)
		}
	}
	if got := n.quantity("eth_getBalance", fmt.Sprintf(`["%s","latest"]`, receiver)); got.Cmp(big.NewInt(5e18)) != 0 {
		t.Errorf("the receiver has %d", got)
	}
	n.checkContract(contract, calls)

	hash := refused.Hash().Hex()
	n.expect(
		[3]string{"eth_getTransactionByHash", `["` + hash + `"]`, "null"},
		[3]string{"eth_call", fmt.Sprintf(`[{"to":"%s"},"0x3039"]`, contract), "-39012 header not found"},
	)
	if got := n.call("eth_getTransactionReceipt", `["`+hash+`"]`); got.Error == nil || got.Error.Code != -32003 || got.Error.Message != "Transaction rejected: WRONG_NONCE" {
		t.Errorf("refused transaction: %s", got)
	}
	if got := n.call("eth_estimateGas", `[{"data":"0x60006000fd"}]`); got.Error == nil || got.Error.Code != 3 {
		t.Errorf("estimate of a revert: %s", got)
	}
}

// checkContract reads what the contract left: code, storage then and now, events.
func (n *network) checkContract(contract common.Address, calls []*types.Transaction) {
	n.t.Helper()
	first := hexutil.EncodeBig(n.receipt(calls[0]).BlockNumber)
	word := func(i int) string { return fmt.Sprintf(`"0x%064x"`, i) }
	address := `"` + hexutil.Encode(contract[:]) + `"`
	n.expect(
		[3]string{"eth_getCode", `[` + address + `,"latest"]`, `"0x` + counter + `"`},
		[3]string{"eth_getCode", `[` + address + `,"0x1"]`, `"0x"`},
		[3]string{"eth_getStorageAt", `[` + address + `,"0x0","latest"]`, word(2)},
		[3]string{"eth_getStorageAt", `[` + address + `,"0x0","` + first + `"]`, word(1)},
		[3]string{"eth_call", `[{"to":` + address + `},"latest"]`, word(3)},
		[3]string{"eth_call", `[{"to":` + address + `},"` + first + `"]`, word(2)},
	)
	if gas := n.quantity("eth_estimateGas", `[{"to":`+address+`}]`); gas.Uint64() < 25_000 || gas.Uint64() > 100_000 {
		n.t.Errorf("estimate %d", gas)
	}
	const topic = `"0x0000000000000000000000000000000000000000000000000000000000c0ffee"`
	for _, filter := range []string{
		`{"fromBlock":"earliest"}`, `{"fromBlock":"0x1","address":` + address + `}`, `{"fromBlock":"0x0","toBlock":"latest","topics":[[` + topic + `]]}`,
	} {
		var logs []types.Log
		unmarshal(n.t.(*testing.T), n.call("eth_getLogs", "["+filter+"]"), &logs)
		if len(logs) != 2 || logs[0].TxHash != calls[0].Hash() || logs[1].TxHash != calls[1].Hash() || logs[1].Data[31] != 2 || logs[0].Address != contract {
			n.t.Errorf("%s: %+v", filter, logs)
		}
	}
}

// A transaction with authorizations has enough gas if it has what was estimated.
func TestDevnetAuthorizationsAreEstimated(t *testing.T) {
	n := newNetworkOf(t, ledger.Config{SetCode: true})
	contract := n.receipt(n.dynamic(0, nil, 0, 500_000, initCode(counter))).ContractAddress
	n.receipt(n.dynamic(1, &contract, 0, 200_000, nil)) // what is zero costs more to write
	var list []types.SetCodeAuthorization
	for _, account := range devaccounts.All()[1:3] {
		key := must.Get(crypto.HexToECDSA(account.PrivateKey))(t)
		authorization := must.Get(types.SignSetCode(key, types.SetCodeAuthorization{ChainID: *uint256.NewInt(298), Address: contract}))(t)
		list = append(list, authorization)
	}
	var entries []string
	for _, a := range list {
		entries = append(entries, fmt.Sprintf(`{"chainId":"0x12a","address":%q,"nonce":"0x0","yParity":"0x%x","r":"0x%064x","s":"0x%064x"}`, lower(a.Address), a.V, &a.R, &a.S))
	}
	call := fmt.Sprintf(`"from":%q,"to":%q`, lower(n.sender), lower(contract))
	plain := n.quantity("eth_estimateGas", `[{`+call+`}]`).Uint64()
	gas := n.quantity("eth_estimateGas", `[{`+call+`,"type":"0x4","authorizationList":[`+strings.Join(entries, ",")+`]}]`).Uint64()
	if gas != plain+2*eth.AuthorizationGas {
		t.Errorf("%d, and %d without authorizations", gas, plain)
	}
	receipt := n.receipt(n.send(&types.SetCodeTx{
		ChainID: uint256.NewInt(298), Nonce: 2, GasFeeCap: uint256.NewInt(800_000_000_000), GasTipCap: new(uint256.Int), Gas: gas, To: contract, AuthList: list,
	}))
	if receipt.Status != types.ReceiptStatusSuccessful || len(receipt.Logs) != 1 {
		t.Errorf("status %d with the gas of the estimate, %d", receipt.Status, gas)
	}
}

func lower(a common.Address) string { return hexutil.Encode(a[:]) }

// Several transactions in one block: gas adds up, indexes and logs are in order.
func TestDevnetBlockOfMany(t *testing.T) {
	n := newNetwork(t, 200*time.Millisecond)
	changed, cancel := n.ledger.Subscribe()
	defer cancel()
	deploy := n.dynamic(0, nil, 0, 500_000, initCode(counter))
	contract := crypto.CreateAddress(n.sender, 0)
	seen := func(tx *types.Transaction) {
		t.Helper()
		hash := fmt.Sprintf(`["%s"]`, tx.Hash())
		for string(n.call("eth_getTransactionReceipt", hash).Result) == "null" {
			<-changed
		}
	}
	seen(deploy)
	var sent []*types.Transaction
	for i := range 8 {
		sent = append(sent, n.dynamic(uint64(i+1), &contract, 0, 200_000, nil))
	}
	seen(sent[len(sent)-1])
	if got := n.receipt(deploy).ContractAddress; got != contract {
		t.Fatalf("contract at %s, want %s", got, contract)
	}
	var receipts []*types.Receipt
	last := n.receipt(sent[len(sent)-1])
	unmarshal(t, n.call("eth_getBlockReceipts", fmt.Sprintf(`["%s"]`, last.BlockHash)), &receipts)
	var cumulative uint64
	for i, r := range receipts {
		cumulative += r.GasUsed
		single := n.receipt(sent[len(sent)-len(receipts)+i])
		if r.CumulativeGasUsed != cumulative || single.CumulativeGasUsed != cumulative || r.TransactionIndex != uint(i) || single.TxHash != r.TxHash {
			t.Errorf("receipt %d: %+v, by hash %+v", i, r, single)
		}
		if len(r.Logs) != 1 || r.Logs[0].Index != uint(i) || single.Logs[0].Index != uint(i) {
			t.Errorf("logs of receipt %d: %v", i, r.Logs)
		}
	}
	if len(receipts) == 0 {
		t.Error("no receipts")
	}
	n.expect([3]string{"eth_getBlockTransactionCountByHash", fmt.Sprintf(`["%s"]`, last.BlockHash), fmt.Sprintf(`"0x%x"`, len(receipts))})
}
