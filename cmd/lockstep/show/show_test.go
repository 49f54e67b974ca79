package show

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/core/vm/program"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/ledger/history"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
	"lockstep/internal/proctest"
)

// TestShow sends transactions and reads what the terminal shows of them.
func TestShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := must.Get(ledger.New(ledger.Config{}))(t)
		var quiet atomic.Bool
		var terminal proctest.Tail
		read := 0 // of what it has written
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		known := must.Get(NewNames("testdata"))(t)
		shown := New(l, &terminal, &quiet, known)
		go func() { ended <- shown.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		from := devaccounts.All()[0].Address
		nonce := uint64(0)
		send := func(to *common.Address, data []byte) *history.Record {
			t.Helper()
			r := must.Get(l.Impersonate(types.NewTx(&types.DynamicFeeTx{
				ChainID: big.NewInt(298), Nonce: nonce, To: to, Data: data, Gas: 1_000_000, GasFeeCap: hedera.Tinybar(100).Weibar(), GasTipCap: new(big.Int),
			}), from))(t)
			nonce++
			synctest.Wait()
			return r
		}
		wants := func(parts ...string) {
			t.Helper()
			got := terminal.String()[read:]
			read += len(got)
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
			must.Do(t, l.Edit(ledger.Edit{Address: address, Code: &code}))
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
		nonce += 7
		send(logging, nil)
		wants("WRONG_NONCE", fmt.Sprintf("reason: its nonce is %d, and the sender's next one is %d", nonce-1, nonce-8))
		nonce -= 8
		// An error of OpenZeppelin's, a failure that the network writes as text, and one that a system contract writes as its code.
		for want, data := range map[string][]byte{
			"reason: OwnableUnauthorizedAccount(account " + common.BigToAddress(big.NewInt(7)).Hex() + ")": text("OwnableUnauthorizedAccount(address)", 7),
			"reason: out of gas":                 []byte("INSUFFICIENT_GAS"),
			"reason: INSUFFICIENT_TOKEN_BALANCE": common.BigToHash(big.NewInt(178)).Bytes(),
			"reason: 0xdeadbeef":                 common.FromHex("0xdeadbeef"),
		} {
			send(contractOf(program.New().Mstore(common.RightPadBytes(data, 64), 0).Push(len(data)).Push(0).Op(vm.REVERT).Bytes()), nil)
			wants(want)
		}
		send(logging, text("transfer(address,uint256)", 7, 5))
		wants("call transfer(to " + common.BigToAddress(big.NewInt(7)).Hex() + ", amount 5)")
	})
}

// TestShowNamesAProject shows the transactions of a contract that Hardhat or Foundry compiled, after the network
// started: which contract, which function with which values, and its own errors.
func TestShowNamesAProject(t *testing.T) {
	for _, project := range []string{"hardhat", "foundry"} {
		t.Run(project, func(t *testing.T) {
			dir := t.TempDir()
			config := map[string]string{"hardhat": "hardhat.config.js", "foundry": "foundry.toml"}[project]
			must.Do(t, os.WriteFile(filepath.Join(dir, config), nil, 0o600))
			t.Chdir(dir)
			known := must.Get(NewNames(""))(t)
			known.again() // there is nothing yet
			known.looked = time.Time{}
			must.Do(t, os.CopyFS(dir, projects[project]))
			l := must.Get(ledger.New(ledger.Config{}))(t)
			from, nonce := devaccounts.All()[0].Address, uint64(0)
			var terminal bytes.Buffer
			shown := New(l, &terminal, new(atomic.Bool), known)
			send := func(to *common.Address, gas uint64, data []byte, parts ...string) *history.Record {
				t.Helper()
				r := must.Get(l.Impersonate(types.NewTx(&types.DynamicFeeTx{
					ChainID: big.NewInt(298), Nonce: nonce, To: to, Data: data, Gas: gas, GasFeeCap: hedera.Tinybar(100).Weibar(), GasTipCap: new(big.Int),
				}), from))(t)
				nonce++
				terminal.Reset()
				must.Do(t, shown.blocks())
				for _, part := range parts {
					if !strings.Contains(terminal.String(), part) {
						t.Errorf("%q is not in\n%s", part, terminal.String())
					}
				}
				return r
			}
			till := send(nil, 1_000_000, tillCode(t, project), "creates ", "(Till)").Result.Address
			of := known.contract(l.View(), till)
			if of == nil {
				t.Fatal("the contract has no name")
			}
			pack := func(name string, values ...any) []byte {
				t.Helper()
				return must.Get(of.abi.Pack(name, values...))(t)
			}
			send(&till, 100_000, pack("take", big.NewInt(30), "lunch"), "to "+till.Hex()+" (Till)", `call Till.take(amount 30, why "lunch")`)
			send(&till, 100_000, pack("take", big.NewInt(90), "\x1b[2J"), `why "\x1b[2J"`, "reason: TooMuch(asked 90, left 70)")
			send(&till, 100_000, pack("take", big.NewInt(1), ""), "reason: say why")
			send(&till, 100_000, pack("spin"), "call Till.spin()", "reason: out of gas, with a limit of 100000")
			send(&till, 100_000, common.FromHex("0x12345678"), "call Till.0x12345678")
		})
	}
}

// projects are what the tools compiled, with testdata as it is before a test changes the directory.
var projects = map[string]fs.FS{"hardhat": absolute("testdata/hardhat"), "foundry": absolute("testdata/foundry")}

func absolute(path string) fs.FS {
	path, err := filepath.Abs(path)
	if err != nil {
		panic(err)
	}
	return os.DirFS(path)
}

// tillCode is the init code of a project's contract.
func tillCode(t *testing.T, project string) []byte {
	t.Helper()
	paths := map[string]string{"hardhat": "artifacts/contracts/Till.sol/Till.json", "foundry": "out/Till.sol/Till.json"}
	text := must.Get(fs.ReadFile(projects[project], paths[project]))(t)
	var artifact struct{ Bytecode any }
	must.Do(t, json.Unmarshal(text, &artifact))
	if inner, ok := artifact.Bytecode.(map[string]any); ok {
		artifact.Bytecode = inner["object"]
	}
	return common.FromHex(artifact.Bytecode.(string))
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
