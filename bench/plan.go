package bench

import (
	"context"
	"crypto/ecdsa"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/big"
	"math/rand/v2"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
)

// A sender is one account of the load.
type sender struct {
	key   *ecdsa.PrivateKey
	addr  common.Address
	start uint64 // nonce of its first transaction
}

// deriveSenders makes n senders. The funder's key is part of the derivation, so that only its owner can
// spend what the senders were given.
func deriveSenders(funder *ecdsa.PrivateKey, seed string, n int) []*sender {
	var secret []byte
	if funder != nil {
		secret = crypto.FromECDSA(funder)
	}
	material := crypto.Keccak256([]byte("lockstep bench sender"), secret, crypto.Keccak256([]byte(seed)))
	senders := make([]*sender, n)
	for i := range senders {
		key := keyFrom(crypto.Keccak256(material, binary.BigEndian.AppendUint64(nil, uint64(i))))
		senders[i] = &sender{key: key, addr: crypto.PubkeyToAddress(key.PublicKey)}
	}
	return senders
}

func keyFrom(material []byte) *ecdsa.PrivateKey {
	for {
		// All but about one in 2^128 hashes are valid keys.
		if key, err := crypto.ToECDSA(material); err == nil {
			return key
		}
		material = crypto.Keccak256(material)
	}
}

// A request is one transaction of the schedule. Transactions are numbered sender × Count + offset
// from its first nonce.
type request struct {
	sender int
	url    int           // index into URLs
	due    time.Duration // after the start of the run
	tx     int
}

// schedule lays out a run: the k-th transaction of every sender, then the k+1-th. It
// depends on the configuration alone, so that two runs get the same one.
func schedule(c Config) []request {
	orders := make([][]int, c.Senders)
	for s := range orders {
		orders[s] = sendingOrder(c, s)
	}
	plan := make([]request, 0, c.Count*c.Senders)
	for k := range c.Count {
		for s := range c.Senders {
			url := s
			if !c.Sticky {
				url += k
			}
			plan = append(plan, request{
				sender: s,
				url:    url % len(c.URLs),
				due:    time.Duration(k)*c.Spacing + c.Spacing*time.Duration(s)/time.Duration(c.Senders),
				tx:     orders[s][k],
			})
		}
	}
	return plan
}

// sendingOrder is the order in which sender s sends its transactions: nonce order,
// shuffled inside windows if asked for.
func sendingOrder(c Config, s int) []int {
	order := make([]int, c.Count)
	for i := range order {
		order[i] = s*c.Count + i
	}
	if c.ShuffleWindow <= 1 {
		return order
	}
	h := fnv.New64a()
	h.Write([]byte(c.Seed))
	r := rand.New(rand.NewPCG(h.Sum64(), uint64(s)))
	for from := 0; from < len(order); from += c.ShuffleWindow {
		window := order[from:min(from+c.ShuffleWindow, len(order))]
		r.Shuffle(len(window), func(i, j int) { window[i], window[j] = window[j], window[i] })
	}
	return order
}

// A transfer is one transaction of the load and what became of it. The goroutine that has the answer
// writes that; nobody else looks until the load is over.
type transfer struct {
	sender int
	nonce  uint64
	hash   common.Hash
	raw    []byte

	verdict verdict
	class   classKey      // why it is refused or unanswered
	at      time.Time     // of the answer
	took    time.Duration // from the request to the answer
}

// verdict is what the target answered.
type verdict uint8

const (
	planned    verdict = iota // not sent
	unanswered                // sent, and no usable answer came back
	accepted                  // answered with its hash
	refused                   // answered with an error
)

const (
	// transferValue is the least that a Hedera transaction can carry, in weibar.
	transferValue = 10_000_000_000
	transferGas   = 21_000
)

// sign makes the transactions of a run, before the clock starts.
func (r *run) sign(ctx context.Context) error {
	r.tell("signing %d transactions", r.report.Planned)
	r.txs = make([]transfer, r.report.Planned)
	return each(ctx, len(r.txs), func(_ context.Context, i int) error {
		number := i / r.Count
		s := r.senders[number]
		t, to := transfer{sender: number, nonce: s.start + uint64(i%r.Count)}, s.addr
		if r.Funder != nil {
			to = crypto.PubkeyToAddress(r.Funder.PublicKey)
		}
		var err error
		t.hash, t.raw, err = r.fees.transfer(s.key, t.nonce, to, big.NewInt(transferValue), transferGas)
		r.txs[i] = t
		return err
	})
}

// transfer signs one.
func (f fees) transfer(key *ecdsa.PrivateKey, nonce uint64, to common.Address, value *big.Int, gas uint64) (common.Hash, []byte, error) {
	tx, err := types.SignNewTx(key, types.LatestSignerForChainID(f.chainID), &types.DynamicFeeTx{
		ChainID: f.chainID, Nonce: nonce, GasTipCap: f.tip, GasFeeCap: f.cap, Gas: gas, To: &to, Value: value,
	})
	if err != nil {
		return common.Hash{}, nil, fmt.Errorf("sign: %w", err)
	}
	raw, err := tx.MarshalBinary()
	return tx.Hash(), raw, err
}
