package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"golang.org/x/sync/errgroup"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

type block struct {
	Number    int64    `json:"number"`
	Hash      hexBytes `json:"hash"`
	Previous  hexBytes `json:"previous_hash"`
	GasUsed   uint64   `json:"gas_used"`
	Size      int      `json:"size"`
	Timestamp struct {
		From timestamp `json:"from"`
		To   timestamp `json:"to"`
	} `json:"timestamp"`
}

func (m *Mirror) findBlock(number *int64) error {
	if number != nil {
		b, found, err := read[block](m, "blocks/"+strconv.FormatInt(*number, 10))
		if err == nil && !found {
			err = fmt.Errorf("%s has no block %d", m.Name(), *number)
		}
		m.block = b
		return errors.Join(err, b.check(err))
	}
	type list struct{ Blocks []block }
	newest, _, err := read[list](m, "blocks?limit=1&order=desc")
	if err == nil && len(newest.Blocks) != 1 {
		err = fmt.Errorf("%s has no blocks", m.Name())
	}
	if err != nil {
		return err
	}
	m.block = newest.Blocks[0]
	return m.block.check(nil)
}

// check tells what a block lacks that was found.
func (b *block) check(err error) error {
	if err == nil && (len(b.Hash) != len(state.Hash48{}) || len(b.Previous) != len(state.Hash48{}) || b.Timestamp.To.IsZero()) {
		return errors.New("the newest block has another form")
	}
	return nil
}

// Fork is the fork point for a ledger with those accounts.
func (m *Mirror) Fork(accounts []devaccounts.Account) (*ledger.ForkPoint, error) {
	p := &ledger.ForkPoint{
		CacheBytes: m.keeps,
		Upstream:   m, Block: history.Block{
			Number: m.block.Number, Hash: state.Hash48(m.block.Hash), Previous: state.Hash48(m.block.Previous),
			From: m.block.Timestamp.From.Timestamp, To: m.block.Timestamp.To.Timestamp, GasUsed: m.block.GasUsed, Size: m.block.Size,
		},
		System: map[int64]hedera.Tinybar{}, Accounts: map[int64]state.Account{}, Nonces: map[int64]int64{},
	}
	var group errgroup.Group
	for _, part := range []func(*ledger.ForkPoint) error{m.rate, m.fees, m.highest, m.system} {
		group.Go(func() error { return part(p) })
	}
	group.Go(func() error { return m.developers(p, accounts) })
	return p, group.Wait()
}

func (m *Mirror) rate(p *ledger.ForkPoint) error {
	type answer struct {
		Current struct {
			Cents   int32 `json:"cent_equivalent"`
			Expires int64 `json:"expiration_time"`
			Hbars   int32 `json:"hbar_equivalent"`
		} `json:"current_rate"`
	}
	r, found, err := read[answer](m, "network/exchangerate?timestamp=lte:"+m.at)
	if err == nil && (!found || r.Current.Cents <= 0 || r.Current.Hbars <= 0) {
		err = fmt.Errorf("%s has no exchange rate", m.Name())
	}
	p.Rate = core.ExchangeRate{Hbar: r.Current.Hbars, Cents: r.Current.Cents, Expires: r.Current.Expires}
	return err
}

// fees finds the price of gas. Without one the ledger has its own.
func (m *Mirror) fees(p *ledger.ForkPoint) error {
	type answer struct {
		Fees []struct {
			Gas  int64
			Type string `json:"transaction_type"`
		}
	}
	a, _, err := read[answer](m, "network/fees?timestamp=lte:"+m.at)
	for _, f := range a.Fees {
		if f.Type == "EthereumTransaction" {
			p.GasPrice = hedera.Tinybar(f.Gas)
		}
	}
	return err
}

// room is how many numbers are left free after the upstream's newest entity: a list of all kinds of
// entities is not to be had, and topics, files and schedules have numbers, too.
const room = 1_000_000

func (m *Mirror) highest(p *ledger.ForkPoint) error {
	type answer struct {
		Accounts  []struct{ Account id }
		Contracts []struct {
			ID id `json:"contract_id"`
		}
		Tokens []struct {
			ID id `json:"token_id"`
		}
	}
	var (
		mu    sync.Mutex
		group errgroup.Group
	)
	for _, list := range []string{"accounts", "contracts", "tokens"} {
		group.Go(func() error {
			a, _, err := read[answer](m, list+"?limit=1&order=desc")
			mu.Lock()
			defer mu.Unlock()
			for _, v := range a.Accounts {
				p.First = max(p.First, v.Account.Num)
			}
			for _, v := range a.Contracts {
				p.First = max(p.First, v.ID.Num)
			}
			for _, v := range a.Tokens {
				p.First = max(p.First, v.ID.Num)
			}
			return err
		})
	}
	err := group.Wait()
	p.First = (p.First/room + 2) * room
	return err
}

// lastSystem is the number of the last account that a fork has of its own.
const lastSystem = 1000

func (m *Mirror) system(p *ledger.ForkPoint) error {
	type answer struct {
		Balances []struct {
			Account id
			Balance int64
		}
	}
	more := ""
	for range lastSystem/pageSize + 1 {
		page, _, err := read[answer](m, fmt.Sprintf("balances?account.id=lte:0.0.%d&order=asc&limit=%d&timestamp=lte:%s%s", lastSystem, pageSize, m.at, more))
		if err != nil {
			return err
		}
		for _, b := range page.Balances {
			if b.Account.Num >= 1 && b.Account.Num <= lastSystem {
				p.System[b.Account.Num] = hedera.Tinybar(b.Balance)
			}
			more = "&account.id=gt:" + b.Account.String()
		}
		if len(page.Balances) < pageSize {
			break
		}
	}
	return nil
}

// developers finds the accounts of the ledger's configuration.
func (m *Mirror) developers(p *ledger.ForkPoint, accounts []devaccounts.Account) error {
	var (
		mu    sync.Mutex
		group errgroup.Group
	)
	group.SetLimit(atOnce)
	for _, a := range accounts {
		group.Go(func() error {
			name := a.ID.String()
			if a.Address != (common.Address{}) {
				name = a.Address.Hex()
			}
			have, err := m.Account(name)
			if err != nil || have == nil || have.Deleted || have.IsContract() {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			switch own := bytes.Equal(publicKey(have.Key), a.PublicKey); {
			case own && have.ID == a.ID && have.Address == a.EVMAddress():
				p.Accounts[a.ID.Num] = *have
			case a.Address != (common.Address{}):
				p.Nonces[a.ID.Num] = have.Nonce
			}
			return nil
		})
	}
	return group.Wait()
}

func publicKey(k *hapi.Key) []byte {
	if k := k.GetEd25519(); k != nil {
		return k
	}
	return k.GetECDSASecp256K1()
}

// BlockHash implements [state.Upstream].
func (m *Mirror) BlockHash(number int64) (common.Hash, error) {
	b, found, err := read[block](m, "blocks/"+strconv.FormatInt(number, 10))
	if err != nil || !found || len(b.Hash) < common.HashLength {
		return common.Hash{}, err
	}
	return common.Hash(b.Hash[:common.HashLength]), nil
}

// Point is the number and the end of the newest block that a fork has of the upstream.
func (m *Mirror) Point() (number int64, end hedera.Timestamp) {
	return m.block.Number, m.block.Timestamp.To.Timestamp
}
