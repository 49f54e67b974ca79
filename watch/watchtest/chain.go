// Package watchtest is a chain for the watchers' tests: go-ethereum's own node over HTTP, whose blocks are made at will, with contracts
// that log what they are told to.
//
// # Words
//
//	emitter   a contract that logs what it is told to
//	cut line  a way to the chain that a test can cut
package watchtest

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"errors"
	"fmt"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/eth/ethconfig"
	"github.com/ethereum/go-ethereum/ethclient/simulated"
	"github.com/ethereum/go-ethereum/node"
	"github.com/ethereum/go-ethereum/params"

	"lockstep/internal/must"
	"lockstep/internal/proctest"
)

// ChainID is the node's chain.
var ChainID = params.AllDevChainProtocolChanges.ChainID.Uint64()

// EmitterCode logs with two topics, the first two words of the call data, and the rest of the call data:
//
//	PUSH1 32 CALLDATALOAD PUSH0 CALLDATALOAD PUSH1 64 CALLDATASIZE SUB DUP1 PUSH1 64 PUSH0 CALLDATACOPY PUSH0 LOG2 STOP
var EmitterCode = common.FromHex("0x6020355f356040360380" + "60405f375fa200")

// pairCode calls two contracts, the first two words of the call data, with the next two times 96 bytes.
var pairCode = common.FromHex("0x36" + "5f5f37" + "5f5f606060405f5f355af150" + "5f5f606060a05f6020355af150" + "00")

// burstCode calls a contract, the first word of the call data, as often as the second word says, with the rest of the call data:
//
//	PUSH1 64 CALLDATASIZE SUB DUP1 PUSH1 64 PUSH0 CALLDATACOPY PUSH1 32 CALLDATALOAD
//	JUMPDEST PUSH0 PUSH0 DUP4 PUSH0 PUSH0 PUSH0 CALLDATALOAD GAS CALL POP PUSH1 1 SWAP1 SUB DUP1 PUSH1 12 JUMPI STOP
var burstCode = common.FromHex("0x6040360380" + "60405f37" + "602035" + "5b5f5f835f5f5f355af150" + "6001900380600c57" + "00")

var (
	pair  = common.HexToAddress("0x0380000000000000000000000000000000ffffff")
	burst = common.HexToAddress("0x0380000000000000000000000000000000fffffe")
)

// Emitter is the n-th of the contracts that log.
func Emitter(n int) common.Address {
	return common.BigToAddress(new(big.Int).Add(new(big.Int).Lsh(big.NewInt(0xe), 150), big.NewInt(int64(n))))
}

// Chain is the node.
type Chain struct {
	*simulated.Backend
	URL, WS string

	t     testing.TB
	key   *ecdsa.PrivateKey
	nonce uint64
}

// New starts a node with a number of contracts.
func New(t testing.TB, emitters int) *Chain {
	t.Helper()
	key := must.Get(crypto.GenerateKey())(t)
	c := &Chain{t: t, key: key}
	alloc := types.GenesisAlloc{crypto.PubkeyToAddress(key.PublicKey): {Balance: new(big.Int).Mul(big.NewInt(params.Ether), big.NewInt(1e9))}}
	for n := range emitters {
		alloc[Emitter(n)] = types.Account{Code: EmitterCode, Balance: new(big.Int)}
	}
	alloc[pair] = types.Account{Code: pairCode, Balance: new(big.Int)}
	alloc[burst] = types.Account{Code: burstCode, Balance: new(big.Int)}
	var host string
	c.Backend, host = Node(t, alloc)
	c.URL, c.WS = "http://"+host, "ws://"+host
	return c
}

// Node runs a node that serves HTTP and WebSockets on a host until the test ends.
func Node(t testing.TB, alloc types.GenesisAlloc) (backend *simulated.Backend, host string) {
	t.Helper()
	// Another process may take a port between its choice and its use.
	for try := 0; ; try++ {
		backend, host, err := tryNode(alloc)
		if err == nil {
			t.Cleanup(func() { _ = backend.Close() })
			return backend, host
		}
		if try == 9 {
			t.Fatal(err)
		}
	}
}

func tryNode(alloc types.GenesisAlloc) (backend *simulated.Backend, host string, err error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	host = listener.Addr().String()
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		return nil, "", err
	}
	defer func() {
		if r := recover(); r != nil { // as it does when it cannot listen
			err = fmt.Errorf("the node on %s: %v", host, r)
		}
	}()
	backend = simulated.NewBackend(alloc, func(n *node.Config, e *ethconfig.Config) {
		n.HTTPHost, n.HTTPModules, n.HTTPPort = "127.0.0.1", []string{"eth"}, port
		n.WSHost, n.WSModules, n.WSPort, n.WSOrigins = n.HTTPHost, n.HTTPModules, n.HTTPPort, []string{"*"}
		n.BatchRequestLimit, n.BatchResponseMaxSize = 1000, 100<<20
		e.TxPool.AccountSlots, e.TxPool.GlobalSlots, e.TxPool.AccountQueue = 100_000, 100_000, 100_000
		e.RPCTxFeeCap = 0            // no maximum
		e.Miner.Recommit = time.Hour // else a busy machine's block goes without some of its transactions, and nobody makes another
	})
	return backend, host, nil
}

// Emit sends a transaction that logs, without making a block. It returns the transaction's hash.
func (c *Chain) Emit(from common.Address, signature string, topic common.Hash, data ...common.Hash) common.Hash {
	c.t.Helper()
	return c.send(from, 100_000, input(signature, topic, data...))
}

// EmitMany sends one transaction in which a contract logs the same many times: a block has room for about 10,000 logs.
func (c *Chain) EmitMany(from common.Address, times int, signature string, topic common.Hash, data ...common.Hash) {
	c.t.Helper()
	text := append(Word(from).Bytes(), Number(int64(times)).Bytes()...)
	c.send(burst, 100_000+3000*uint64(times), append(text, input(signature, topic, data...)...))
}

// EmitPair sends one transaction in which two contracts log, one after the other, with a word of data each.
func (c *Chain) EmitPair(first common.Address, one []byte, second common.Address, two []byte) {
	c.t.Helper()
	data := append(Word(first).Bytes(), Word(second).Bytes()...)
	c.send(pair, 100_000, append(append(data, one...), two...))
}

// Input is the call data that makes a contract log.
func Input(signature string, topic, data common.Hash) []byte { return input(signature, topic, data) }

func input(signature string, topic common.Hash, data ...common.Hash) []byte {
	text := append(crypto.Keccak256([]byte(signature)), topic.Bytes()...)
	for _, word := range data {
		text = append(text, word.Bytes()...)
	}
	return text
}

func (c *Chain) send(to common.Address, gas uint64, data []byte) common.Hash {
	c.t.Helper()
	return c.Transact(to, gas, new(big.Int), data)
}

// Sender is who sends the transactions.
func (c *Chain) Sender() common.Address { return crypto.PubkeyToAddress(c.key.PublicKey) }

// Transact sends a transaction, without making a block.
func (c *Chain) Transact(to common.Address, gas uint64, value *big.Int, data []byte) common.Hash {
	c.t.Helper()
	chain := new(big.Int).SetUint64(ChainID)
	signed := must.Get(types.SignNewTx(c.key, types.LatestSignerForChainID(chain), &types.DynamicFeeTx{
		ChainID: chain, Nonce: c.nonce, To: &to, Gas: gas, GasFeeCap: big.NewInt(1e12), GasTipCap: big.NewInt(1e9), Value: value, Data: data,
	}))(c.t)
	must.Do(c.t, c.Client().SendTransaction(context.Background(), signed))
	c.nonce++
	return signed.Hash()
}

// forgotten is after how long without progress a node is helped: its pool may leave what arrives while a block is made among what has to wait
// for an earlier nonce, and look at it again when there is another block.
const forgotten = 15 * time.Second

// Commit makes a block of all that was sent: the node takes transactions up for its next block in its own time.
func (c *Chain) Commit() common.Hash {
	c.t.Helper()
	asked := time.Now()
	Until(c.t, "the node has taken up all that was sent", func() (bool, error) {
		next, err := c.Client().PendingNonceAt(context.Background(), c.Sender())
		if next < c.nonce && time.Since(asked) > forgotten {
			asked = time.Now()
			c.Backend.Commit()
		}
		return next >= c.nonce, err
	})
	hash := c.Backend.Commit()
	if mined, err := c.Client().NonceAt(context.Background(), c.Sender(), nil); err != nil || mined != c.nonce {
		c.t.Fatalf("the block has transactions up to nonce %d, %d were sent: %v", mined, c.nonce, err)
	}
	return hash
}

// Word is an address as a topic or a word of data.
func Word(a common.Address) common.Hash { return common.BytesToHash(a[:]) }

// Number is a number as a topic or a word of data.
func Number(n int64) common.Hash { return common.BigToHash(big.NewInt(n)) }

// Reorg replaces the newest blocks by one block more. Their transactions are forgotten, or are in the first of the new blocks.
func (c *Chain) Reorg(depth int, forget bool) {
	c.t.Helper()
	client := c.Client()
	head := must.Get(client.BlockNumber(context.Background()))(c.t)
	parent, err := client.HeaderByNumber(context.Background(), new(big.Int).SetUint64(head-uint64(depth)))
	if err != nil {
		c.t.Fatal(err)
	}
	must.Do(c.t, c.Fork(parent.Hash()))
	if forget {
		c.Rollback()
	}
	for range depth + 1 {
		c.Backend.Commit()
	}
	if c.nonce, err = client.PendingNonceAt(context.Background(), crypto.PubkeyToAddress(c.key.PublicKey)); err != nil {
		c.t.Fatal(err)
	}
}

// Until waits for a condition.
func Until(t testing.TB, what string, holds func() (bool, error)) {
	t.Helper()
	must.Do(t, proctest.Until(t.Context(), 5*time.Minute, func() error {
		ok, err := holds()
		if ok {
			return nil
		}
		return fmt.Errorf("never: %s: %w", what, cmp.Or(err, errors.New("it does not hold")))
	}))
}
