package bench

import (
	"context"
	"crypto/ecdsa"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/big"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/sleep"
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
	r.logf("signing %d transactions", r.report.Planned)
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

const (
	// fundChunk is how many funding transactions may be without a receipt: enough not to
	// wait for consensus each time, few enough that a failure costs little.
	fundChunk = 50
	// fundGas covers the creation of a Hedera account by the transfer, for targets that
	// do not estimate it.
	fundGas = 800_000
	// fundTimeout bounds the wait for a chunk.
	fundTimeout = time.Minute
)

// fund brings every sender to what its transactions can cost at the most. The transfers leave one after the
// other, in nonce order; it returns when the balances are there. A run after one that failed here goes on with
// those who have nothing yet.
func (r *run) fund(ctx context.Context) error {
	need := new(big.Int).Mul(r.fees.cap, big.NewInt(transferGas))
	need.Add(need, big.NewInt(transferValue))
	need.Mul(need, big.NewInt(int64(r.Count)))
	poor, err := r.poorerThan(ctx, need)
	if err != nil || len(poor) == 0 {
		return err
	}
	if r.Funder == nil {
		return fmt.Errorf("%d of %d senders, %s first, have less than the %s weibar a run can cost, and there is no key to fund them from",
			len(poor), len(r.senders), poor[0].addr, need)
	}
	r.logf("funding %d senders", len(poor))
	from := crypto.PubkeyToAddress(r.Funder.PublicKey)
	nonce, err := r.state.nonce(ctx, from)
	if err != nil {
		return err
	}
	amount := roundUp(need, transferValue)
	gas := r.fundGasFor(ctx, from, poor[0].addr, amount)
	for chunk := range slices.Chunk(poor, fundChunk) {
		if err := r.fundAll(ctx, chunk, nonce, amount, gas); err != nil {
			return err
		}
		nonce += uint64(len(chunk))
	}
	return nil
}

// fundAll sends a transfer to each, and waits for their receipts and for balances: relays check the balance of a sender with
// the same source.
func (r *run) fundAll(ctx context.Context, chunk []*sender, nonce uint64, amount *big.Int, gas uint64) error {
	ctx, cancel := context.WithTimeout(ctx, fundTimeout)
	defer cancel()
	hashes := make([]common.Hash, len(chunk))
	for i, s := range chunk {
		hash, raw, err := r.fees.transfer(r.Funder, nonce+uint64(i), s.addr, amount, gas)
		if err == nil {
			err = r.state.call(ctx, new(common.Hash), "eth_sendRawTransaction", hexutil.Encode(raw))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.addr, err)
		}
		hashes[i] = hash
	}
	return each(ctx, len(chunk), func(ctx context.Context, i int) error {
		err := await(ctx, func() (bool, error) {
			found, err := r.state.receipt(ctx, hashes[i])
			if err == nil && found != nil && found.Status == 0 {
				err = fmt.Errorf("transaction %s failed", hashes[i])
			}
			return found != nil, err
		})
		if err == nil {
			err = await(ctx, func() (bool, error) {
				have, err := r.state.balance(ctx, chunk[i].addr)
				return err == nil && have.Cmp(amount) >= 0, err
			})
		}
		if err != nil {
			return fmt.Errorf("%s: %w", chunk[i].addr, err)
		}
		return nil
	})
}

// await looks again and again until something is there.
func await(ctx context.Context, look func() (there bool, err error)) error {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if there, err := look(); there || err != nil {
			return err
		}
		if !sleep.For(ctx, pause) {
			return ctx.Err()
		}
	}
}

// fundGasFor is the gas limit of a funding transaction: the estimate for the first plus a fifth,
// or a sum that covers the creation of an account.
func (r *run) fundGasFor(ctx context.Context, from, to common.Address, amount *big.Int) uint64 {
	gas, err := r.state.quantity(ctx, "eth_estimateGas", map[string]any{"from": from, "to": to, "value": (*hexutil.Big)(amount)})
	if err != nil {
		return fundGas
	}
	return gas.Uint64() + gas.Uint64()/5
}

// poorerThan returns those of the senders that have less than need, in order.
func (r *run) poorerThan(ctx context.Context, need *big.Int) ([]*sender, error) {
	isPoor := make([]bool, len(r.senders))
	err := each(ctx, len(r.senders), func(ctx context.Context, i int) error {
		have, err := r.state.balance(ctx, r.senders[i].addr)
		isPoor[i] = err == nil && have.Cmp(need) < 0
		return err
	})
	var poor []*sender
	for i, s := range r.senders {
		if isPoor[i] {
			poor = append(poor, s)
		}
	}
	return poor, err
}

func roundUp(v *big.Int, step int64) *big.Int {
	unit := big.NewInt(step)
	up := new(big.Int).Add(v, big.NewInt(step-1))
	return up.Mul(up.Div(up, unit), unit)
}
