package consensus_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/consensus"
	"lockstep/internal/hedera"
)

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
