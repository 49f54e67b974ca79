package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
)

// The accounts of the network that attacks send from.
const (
	logSender      = 2
	farAheadSender = 3
	orderedSender  = 4
	filesSender    = 5
)

// wrongNonceBudget is how many rejections a sender may cost in a minute, by default.
const wrongNonceBudget = 10

// signFarAhead signs what the clients send: five hundred nonces of one sender that are far ahead.
func signFarAhead(_ context.Context, t *target) error {
	const count = 500
	for i := range uint64(count) {
		raw, err := t.sign(farAheadSender, 1000+3*i, nil)
		if err != nil {
			return err
		}
		t.signed = append(t.signed, raw)
	}
	return nil
}

// signLong signs transactions of one sender whose call data goes into files of the network: half of them with a gap
// before them, half with one nonce.
func signLong(_ context.Context, t *target) error {
	const count = 20
	data := bytes.Repeat([]byte{1}, 20_000)
	for i := range uint64(count) {
		for _, nonce := range []uint64{5 + i, 0} {
			raw, err := t.sign(filesSender, nonce, append(data, byte(i)))
			if err != nil {
				return err
			}
			t.signed = append(t.signed, raw)
		}
	}
	return nil
}

// countFiles counts the files that the operator paid for: one transaction was executed.
func countFiles(ctx context.Context, t *target) error {
	text, err := get(ctx, t.ready.Mirror+"/api/v1/transactions?transactiontype=FILECREATE&limit=100")
	if err != nil {
		return err
	}
	var list struct{ Transactions []struct{ Name string } }
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	t.say("the operator paid for %d files of %d", len(list.Transactions), len(t.signed))
	if paid := len(list.Transactions); paid != 1 {
		t.wrong("the operator paid for %d files of one sender, of which one led to an execution", paid)
	}
	return nil
}

// sign signs a transfer of a tinybar.
func (t *target) sign(account int, nonce uint64, data []byte) (raw string, err error) {
	to := common.HexToAddress("0x00000000000000000000000000000000000003ea")
	return t.signAny(account, &types.LegacyTx{Nonce: nonce, Gas: 1_000_000, To: &to, Value: big.NewInt(10_000_000_000), Data: data})
}

// signAny signs any transaction at the price of all.
func (t *target) signAny(account int, tx *types.LegacyTx) (raw string, err error) {
	key, err := crypto.HexToECDSA(strings.TrimPrefix(t.ready.Accounts[account].PrivateKey, "0x"))
	if err != nil {
		return "", err
	}
	tx.GasPrice = price
	signed, err := types.SignNewTx(key, types.LatestSignerForChainID(chainID), tx)
	if err != nil {
		return "", err
	}
	encoded, err := signed.MarshalBinary()
	return fmt.Sprintf("0x%x", encoded), err
}

// sendFarAhead sends every fiftieth of them, or whatever a client's part is.
func sendFarAhead(ctx context.Context, c *client) {
	for i := c.number; i < len(c.signed) && ctx.Err() == nil; i += c.clients {
		_, _ = c.send(ctx, call("eth_sendRawTransaction", fmt.Sprintf("%q", c.signed[i]))) // what came of it, the log tells
	}
}

// countPaid counts in the network's log what the operator paid for.
func countPaid(ctx context.Context, t *target) error {
	text, err := get(ctx, t.ready.Mirror+"/devnet/consensus")
	if err != nil {
		return err
	}
	var log struct {
		Entries []struct {
			Sender common.Address
			Status string
		}
	}
	if err := json.Unmarshal(text, &log); err != nil {
		return err
	}
	paid := 0
	for _, e := range log.Entries {
		if e.Status != "SUCCESS" && e.Sender == common.HexToAddress(t.ready.Accounts[farAheadSender].Address) {
			paid++
		}
	}
	t.say("the operator paid for %d of %d, and %d a minute may be", paid, len(t.signed), wrongNonceBudget)
	if may := wrongNonceBudget * (1 + int(time.Since(t.began)/time.Minute)); paid > may {
		t.wrong("the operator paid for %d rejections of one sender, and %d may be", paid, may)
	}
	return nil
}

// sendNext sends the first transaction of an account.
func (t *target) sendNext(ctx context.Context, account int) error {
	raw, err := t.sign(account, 0, nil)
	if err != nil {
		return err
	}
	c := client{target: t, url: t.url, number: honestNumber, http: http.DefaultClient}
	answer, err := c.send(ctx, call("eth_sendRawTransaction", fmt.Sprintf("%q", raw)))
	if err == nil && !strings.Contains(string(answer), `"result"`) {
		err = fmt.Errorf("send: %s", answer)
	}
	return err
}
