package consensus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/consensus"
	"lockstep/devnet"
	"lockstep/e2e/harness"
	"lockstep/internal/envx"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/internal/secret"
)

// A node tells an account's nonce by its address, for a payment; an address that nobody has is ErrNoAccount.
func TestNonceAt(t *testing.T) {
	n := harness.Network(t, devnet.Config{Nodes: 2, ConsensusLatency: 1, Jitter: 1, Log: slog.New(slog.DiscardHandler)})
	client := must.Get(consensus.New(consensus.Config{
		Network: string(must.Get(json.Marshal(n.Nodes()))(t)), OperatorID: devnet.OperatorID(), OperatorKey: secret.String(devnet.OperatorKey()), OperatorKeyFormat: "HEX_ECDSA",
		AttemptTimeout: envx.Millis(consensus.Patience), RequestTimeout: envx.Millis(consensus.Patience), MaxAttempts: 10,
	}, slog.New(slog.DiscardHandler)))(t)
	defer client.Close()
	client.BePatient()
	account := n.Accounts()[1]
	key := must.Get(crypto.HexToECDSA(strings.TrimPrefix(account.PrivateKey, "0x")))(t)
	chainID, sender := big.NewInt(298), crypto.PubkeyToAddress(key.PublicKey)
	at := client.NodesFor(sender)[0]
	if nonce, err := client.NonceAt(t.Context(), sender, at); err != nil || nonce != 0 {
		t.Fatalf("NonceAt = %d, %v", nonce, err)
	}
	raw := must.Get(types.MustSignNewTx(key, types.LatestSignerForChainID(chainID), &types.DynamicFeeTx{
		ChainID: chainID, Gas: 100_000, GasFeeCap: big.NewInt(2_000_000_000_000), To: &sender, Value: big.NewInt(1e10),
	}).MarshalBinary())(t)
	pending := must.Get(client.Submit(t.Context(), consensus.Submission{Ethereum: raw, Sender: sender, MaxFee: 10 * hedera.Hbar}))(t)
	must.Get(pending.Receipt(t.Context()))(t)
	number := must.Get(hedera.ParseID(account.ID))(t)
	for _, address := range []common.Address{sender, number.LongZero()} {
		if nonce, err := client.NonceAt(t.Context(), address, at); err != nil || nonce != 1 {
			t.Errorf("NonceAt(%s) = %d, %v", address, nonce, err)
		}
	}
	if _, err := client.NonceAt(t.Context(), common.HexToAddress("0xdead00000000000000000000000000000000dead"), at); !errors.Is(err, consensus.ErrNoAccount) {
		t.Errorf("an address that nobody has: %v", err)
	}
	if _, err := client.NonceAt(t.Context(), sender, hedera.Entity(99)); err == nil {
		t.Error("a node that is not there answers")
	}
	// The balance alone is told for nothing.
	operator, _ := client.Operator()
	paid, err := client.BalanceAt(t.Context(), operator, at)
	if err != nil || paid <= 0 {
		t.Fatalf("the operator's balance: %d, %v", paid, err)
	}
	if now, err := client.BalanceAt(t.Context(), operator, at); err != nil || now != paid {
		t.Errorf("the operator's balance was %d, is %d, %v", paid, now, err)
	}
	if _, err := client.BalanceAt(t.Context(), hedera.Entity(424242), at); !errors.Is(err, consensus.ErrNoAccount) {
		t.Errorf("the balance of an account that is not there: %v", err)
	}
	if _, err := client.BalanceAt(t.Context(), operator, hedera.Entity(99)); err == nil {
		t.Error("a node that is not there tells a balance")
	}
}

// Submitting a signed transaction and telling apart what its errors mean.
func ExampleClient_Submit() {
	client, err := consensus.New(consensus.Config{
		Network:        "testnet",
		OperatorID:     "0.0.1002",
		OperatorKey:    "0x…", // from the environment
		AttemptTimeout: 10e9, RequestTimeout: 30e9, MaxAttempts: 10,
	}, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		fmt.Println("the settings are wrong:", err)
		return
	}
	defer client.Close()

	var sent *consensus.SentError
	var refused *consensus.StatusError
	pending, err := client.Submit(context.Background(), consensus.Submission{
		Ethereum: common.FromHex("0x02f8…"),
		Sender:   common.HexToAddress("0x67d8d32e9bf1a9968a5ff53b87d777aa8ebbee69"),
		MaxFee:   10 * hedera.Hbar,
	})
	switch {
	case err == nil:
		receipt, err := pending.Receipt(context.Background())
		fmt.Println(receipt.Status, err)
	case errors.As(err, &sent):
		fmt.Println("may be executed:", sent.Pending.ID())
	case errors.As(err, &refused):
		fmt.Println("nothing was executed:", refused.Status)
	default:
		fmt.Println("no node has it:", err)
	}
}
