package fleet

import (
	"crypto/ecdsa"
	"fmt"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/must"
)

// transaction is signed and ready to be sent.
type transaction struct {
	sender common.Address
	nonce  uint64
	hash   common.Hash
	raw    hexutil.Bytes
}

func (tx *transaction) String() string {
	return fmt.Sprintf("%s nonce %d %s", tx.sender.Hex()[:8], tx.nonce, tx.hash.Hex()[:10])
}

// sender is one account that transactions come from.
type sender struct {
	key     *ecdsa.PrivateKey
	address common.Address
	next    uint64 // nonce of the next transaction
}

// newSender gives the next of the network's funded accounts that an Ethereum
// client can use, from its first transaction on.
func (n *network) newSender() *sender {
	n.t.Helper()
	for n.taken < len(n.Accounts) {
		a := n.Accounts[n.taken]
		n.taken++
		key, err := crypto.HexToECDSA(strings.TrimPrefix(a.PrivateKey, "0x"))
		if err == nil && crypto.PubkeyToAddress(key.PublicKey) == common.HexToAddress(a.Address) {
			return &sender{key: key, address: common.HexToAddress(a.Address)}
		}
	}
	n.t.Fatal("the network has no more accounts")
	return nil
}

func (n *network) newSenders(count int) []*sender {
	n.t.Helper()
	all := make([]*sender, count)
	for i := range all {
		all[i] = n.newSender()
	}
	return all
}

// stranger is a key that the network knows nothing of.
func (n *network) stranger() *sender {
	n.t.Helper()
	key := must.Get(crypto.GenerateKey())(n.t)
	return &sender{key: key, address: crypto.PubkeyToAddress(key.PublicKey)}
}

// crowd gives many senders, funded from one of the network's accounts through a
// relay. That is a burst by itself.
func (n *network) crowd(count int, through *relay) []*sender {
	n.t.Helper()
	bank := n.newSender()
	all := make([]*sender, count)
	txs := make([]*transaction, count)
	for i := range all {
		all[i] = n.stranger()
		txs[i] = bank.sign(all[i].address, ether(100), 1_000_000)
	}
	b := newBurst(n)
	for len(txs) > 0 {
		size := min(len(txs), 100)
		b.post(through, txs[:size]...)
		txs = txs[size:]
	}
	const limit = 5 * normal // setting up is not what is tested
	n.check(b.waitFor(limit), allowance{slow: limit})
	last := all[count-1]
	until(n.t, normal, "the senders are funded", func() bool {
		return string(through.call("eth_getBalance", last.address, "latest")) != `"0x0"`
	})
	return all
}

func ether(n int64) *big.Int { return new(big.Int).Mul(big.NewInt(n), big.NewInt(1e18)) }

// sign makes the sender's next transaction, a payment.
func (s *sender) sign(to common.Address, value *big.Int, gas uint64) *transaction {
	tx := s.signNonce(s.next, to, value, gas)
	s.next++
	return tx
}

func (s *sender) signNonce(nonce uint64, to common.Address, value *big.Int, gas uint64) *transaction {
	chain := big.NewInt(chainID)
	signed := types.MustSignNewTx(s.key, types.LatestSignerForChainID(chain), &types.DynamicFeeTx{
		ChainID: chain, Nonce: nonce, GasFeeCap: big.NewInt(2e12), Gas: gas, To: &to, Value: value,
	})
	raw, err := signed.MarshalBinary()
	if err != nil {
		panic(err) // it was signed a moment ago
	}
	return &transaction{sender: s.address, nonce: nonce, hash: signed.Hash(), raw: raw}
}

// plain gas and value of a payment to an account that exists.
const paymentGas = 30_000

func payment() *big.Int { return big.NewInt(1e10) } // one tinybar

// pay makes the sender's next transactions.
func (s *sender) pay(count int) []*transaction {
	txs := make([]*transaction, count)
	for i := range txs {
		txs[i] = s.sign(s.address, payment(), paymentGas)
	}
	return txs
}

// rival makes another transaction with the same nonce, as a wallet does to replace one.
func (s *sender) rival(tx *transaction) *transaction {
	return s.signNonce(tx.nonce, s.address, new(big.Int).Mul(payment(), big.NewInt(2)), paymentGas)
}
