package show

import (
	"context"
	"fmt"
	"io"
	"math/big"
	"strings"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/history"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// Show writes each transaction to the terminal when its block is closed: what it is, who sent
// it, what it calls, what it cost, how it ended and why, and what it wrote with console.log.
type Show struct {
	ledger *ledger.Ledger
	out    io.Writer
	quiet  *atomic.Bool

	names   *Names
	console consoleDecoder
	next    int64 // number of the first block that is not shown
	of      uint64
}

// New shows what comes after now, while quiet is not set.
func New(l *ledger.Ledger, out io.Writer, quiet *atomic.Bool, names *Names) *Show {
	return &Show{ledger: l, out: out, quiet: quiet, names: names, next: l.View().LatestBlock().Number + 1, of: l.Generation().Number}
}

// Run shows until ctx ends.
func (s *Show) Run(ctx context.Context) error {
	changed, cancel := s.ledger.Subscribe()
	defer cancel()
	for {
		if err := s.blocks(); err != nil {
			return fmt.Errorf("show transactions: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// blocks shows what is new, a part at a time.
func (s *Show) blocks() error {
	view := s.ledger.View()
	if g := view.Generation(); g.Number != s.of {
		s.of = g.Number
		what := "the chain went back to block %d\n"
		if s.next = min(s.next, g.Block+1); g.Newest > g.Block {
			what, s.next = "another chain was loaded, up to block %d\n", g.Newest+1
		}
		if err := s.write(fmt.Sprintf(what, g.Newest)); err != nil {
			return err
		}
	}
	s.next = max(s.next, view.OldestBlock().Number)
	for newest := view.LatestBlock().Number; s.next <= newest; {
		if err := s.write(s.part(view, newest)); err != nil {
			return err
		}
	}
	return nil
}

// part is the text of the next blocks, until it is long enough.
func (s *Show) part(view *ledger.View, newest int64) string {
	const enough = 64 << 10 // bytes
	var text strings.Builder
	for ; text.Len() < enough && s.next <= newest; s.next++ {
		b, ok := view.BlockByNumber(s.next)
		if !ok {
			continue // it has gone meanwhile
		}
		for _, r := range b.Records {
			if !r.IsChild() {
				s.record(&text, view, r)
			}
		}
	}
	return text.String()
}

func (s *Show) write(text string) error {
	if text == "" || s.quiet.Load() {
		return nil
	}
	_, err := io.WriteString(s.out, text)
	return err
}

// record shows one transaction. One of the EVM has several lines, others one.
func (s *Show) record(w *strings.Builder, view *ledger.View, r *history.Record) {
	e := r.Result
	if e == nil {
		fmt.Fprintf(w, "%s %s  payer %s  %s  block %d\n", r.Kind, r.ID, r.ID.Payer, r.Status, r.Block)
		return
	}
	hash := "0x" + fmt.Sprintf("%x", r.Hash[:32])
	if r.EthereumHash != (common.Hash{}) {
		hash = r.EthereumHash.Hex()
	}
	to, of := target(e), s.names.contract(view, e.Address)
	if of != nil {
		to += " (" + clean(of.name) + ")"
	}
	fmt.Fprintf(w, "%s\n    from %s  %s  gas %d  block %d  %s\n", hash, e.Sender.Hex(), to, e.GasUsed, r.Block, r.Status)
	if call := s.names.call(of, e.Input); call != "" && !e.Create {
		fmt.Fprintf(w, "    call %s\n", call)
	}
	if e.Amount > 0 {
		fmt.Fprintf(w, "    value %d tinybar\n", e.Amount)
	}
	if r.Status != hapi.ResponseCodeEnum_SUCCESS {
		why := s.reason(e)
		if tx := new(types.Transaction); r.Status == hapi.ResponseCodeEnum_WRONG_NONCE && e.SignerNonce >= 0 && tx.UnmarshalBinary(e.Raw) == nil {
			why = fmt.Sprintf("its nonce is %d, and the sender's next one is %d", tx.Nonce(), e.SignerNonce)
		}
		if why != "" && why != r.Status.String() {
			fmt.Fprintf(w, "    reason: %s\n", why)
		}
	}
	for i := range e.Actions {
		if line, ok := s.console.line(&e.Actions[i]); ok {
			fmt.Fprintf(w, "    console.log: %s\n", line)
		}
	}
}

// target is what a transaction calls or creates.
func target(e *history.EVMResult) string {
	switch {
	case e.Create && e.Address == (common.Address{}):
		return "creates nothing"
	case e.Create:
		return "creates " + e.Address.Hex()
	default:
		return "to " + common.BytesToAddress(e.To).Hex()
	}
}

// reason reads the error message of a result: revert data in hexadecimal, or the name of a status. What is not
// printable is quoted, since a contract chooses it.
func (s *Show) reason(e *history.EVMResult) string {
	data, err := hexutil.Decode(e.ErrorMessage)
	if err != nil {
		if e.ErrorMessage == hapi.ResponseCodeEnum_INSUFFICIENT_GAS.String() && e.GasUsed >= e.GasLimit {
			return fmt.Sprintf("out of gas, with a limit of %d", e.GasLimit)
		}
		return hedera.PlainWords(clean(e.ErrorMessage))
	}
	if text, err := abi.UnpackRevert(data); err == nil {
		return clean(text)
	}
	if known := s.names.fault(data); known != "" {
		return known
	}
	if _, ok := hedera.ParseStatus(string(data)); ok { // the network writes its own reasons so
		return hedera.PlainWords(string(data))
	}
	if number := new(big.Int).SetBytes(data); len(data) == common.HashLength && number.IsInt64() { // and system contracts so
		if name, ok := hapi.ResponseCodeEnum_name[int32(number.Int64())]; ok && number.Int64() < 1<<15 {
			return hedera.PlainWords(name)
		}
	}
	const longest = 64
	if len(data) > longest {
		return fmt.Sprintf("0x%x… (%d bytes)", data[:longest], len(data))
	}
	return e.ErrorMessage
}

// clean makes text of a contract fit for a terminal.
func clean(text string) string {
	const longest = 4096
	if len(text) > longest {
		text = text[:longest] + "…"
	}
	quoted := fmt.Sprintf("%q", text)
	return quoted[1 : len(quoted)-1]
}
