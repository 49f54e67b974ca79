package main

import (
	"bytes"
	"context"
	"math/big"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/core/vm/program"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/devnet/ledger"
	"lockstep/internal/hedera"
)

// sharedText is a terminal that a test may read.
type sharedText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *sharedText) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// take returns what was written since the last time.
func (s *sharedText) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.text.Reset()
	return s.text.String()
}

// TestShow sends transactions and reads what the terminal shows of them.
func TestShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := ledger.New(ledger.Config{})
		if err != nil {
			t.Fatal(err)
		}
		var quiet atomic.Bool
		var terminal sharedText
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		shown := newShow(l, &terminal, &quiet)
		go func() { ended <- shown.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		from := ledger.DevAccounts()[0].Address
		nonce := uint64(0)
		send := func(to *common.Address, data []byte) *ledger.Record {
			t.Helper()
			r, err := l.Impersonate(types.NewTx(&types.DynamicFeeTx{
				ChainID: big.NewInt(298), Nonce: nonce, To: to, Data: data, Gas: 1_000_000, GasFeeCap: hedera.Tinybar(100).Weibar(), GasTipCap: new(big.Int),
			}), from)
			if err != nil {
				t.Fatal(err)
			}
			nonce++
			synctest.Wait()
			return r
		}
		wants := func(parts ...string) {
			t.Helper()
			got := terminal.take()
			for _, part := range parts {
				if !strings.Contains(got, part) {
					t.Errorf("%q is not in\n%s", part, got)
				}
			}
			if len(parts) == 0 && got != "" {
				t.Errorf("shown: %s", got)
			}
		}
		contractOf := func(code []byte) *common.Address {
			t.Helper()
			address := crypto.CreateAddress(from, uint64(l.View().LatestBlock().Number)+1000)
			if err := l.Edit(ledger.Edit{Address: address, Code: &code}); err != nil {
				t.Fatal(err)
			}
			return &address
		}
		// reverting reverts with Error("no\n"), and logging calls log(string,uint256) of the console.
		text := func(selector string, words ...any) []byte {
			data := crypto.Keccak256([]byte(selector))[:4]
			for _, w := range words {
				switch w := w.(type) {
				case int:
					data = append(data, common.BigToHash(big.NewInt(int64(w))).Bytes()...)
				case string:
					data = append(data, common.RightPadBytes([]byte(w), 32)...)
				}
			}
			return data
		}
		why := text("Error(string)", 32, 3, "no\n")
		line := text("log(string,uint256)", 64, 42, 6, "a %d b")
		reverting := contractOf(program.New().Mstore(why, 0).Push(len(why)).Push(0).Op(vm.REVERT).Bytes())
		logging := contractOf(program.New().Mstore(line, 0).StaticCall(nil, consoleAddress, 0, len(line), 0, 0).Op(vm.STOP).Bytes())
		wants()

		r := send(logging, nil)
		wants(r.EthereumHash.Hex(), "from "+from.Hex(), "to "+logging.Hex(), "SUCCESS", "console.log: a 42 b", "block 3")
		snapshot := l.Snapshot()
		send(reverting, nil)
		wants("CONTRACT_REVERT_EXECUTED", `reason: no\n`)
		if !l.Revert(snapshot) {
			t.Fatal("not reverted")
		}
		synctest.Wait()
		wants("the chain went back to block 3")
		nonce--
		quiet.Store(true)
		send(logging, nil)
		wants()
		quiet.Store(false)
		send(nil, common.FromHex("0x00"))
		wants("creates ")
	})
}

// What is written in the terminal is what contracts chose: it cannot be made to do something.
func TestCleanText(t *testing.T) {
	for text, want := range map[string]string{"plain": "plain", "\x1b[2J": `\x1b[2J`, "ℏ": "ℏ", "a\nb": `a\nb`} {
		if got := clean(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := clean(strings.Repeat("x", 5000)); len(got) > 4200 {
		t.Errorf("%d bytes", len(got))
	}
}
