package watch_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/watch"
	"lockstep/watch/decode"
	"lockstep/watch/watchtest"
)

var bob = common.HexToAddress("0xb0b0000000000000000000000000000000000b0b")

// calling is the call data of a function of an address and a number.
func calling(t *testing.T, function string, to common.Address, amount int64) []byte {
	t.Helper()
	data := append(signature(t, function).Selector.Bytes()[:4], watchtest.Word(to).Bytes()...)
	return append(data, watchtest.Number(amount).Bytes()...)
}

const (
	enough    = 100_000
	notEnough = 22_100 // for the data, and not for the log that the contract makes
)

// TestTransactions follows calls and plain transfers besides events: in long past blocks, in new ones, and in those that are replaced; the events of an
// address of which only transactions are followed are not read.
func TestTransactions(t *testing.T) {
	c := watchtest.New(t, 4)
	sender := c.Sender()
	pay, ping := signature(t, "pay(address to,uint256 amount)"), signature(t, "ping(address,uint256)")
	w := given(t, "w", 1)
	w.Tables = true
	w.Transactions = []watch.Transactions{
		{Functions: []*decode.Signature{pay}}, // to the watch's contract
		{To: []common.Address{bob}},           // whatever it does
		{From: []common.Address{sender}, Functions: []*decode.Signature{ping}, Failed: true},
	}
	plan := escrows(t, c.URL)
	plan.Watches = []watch.Watch{w}
	last4 := func(a common.Address) string { return a.Hex()[38:] }
	var told []string
	block := 0
	round := func(commit bool) {
		block++
		approve(c, 1)
		approve(c, 3)
		c.Transact(watchtest.Emitter(1), enough, new(big.Int), calling(t, "pay(address,uint256)", bob, 5))
		c.Transact(watchtest.Emitter(1), notEnough, new(big.Int), calling(t, "pay(address,uint256)", bob, 6)) // it fails
		c.Transact(watchtest.Emitter(2), enough, new(big.Int), calling(t, "pay(address,uint256)", bob, 7))    // not ours
		c.Transact(bob, enough, big.NewInt(1e18+int64(block)), nil)
		c.Transact(watchtest.Emitter(3), notEnough, new(big.Int), calling(t, "ping(address,uint256)", bob, 8)) // it fails
		if commit {
			c.Commit()
		}
		told = append(told, fmt.Sprintf("+%s Approved@%d", short(1), block), fmt.Sprintf("+%s pay@%d", short(1), block), fmt.Sprintf("+%s transaction@%d", last4(bob), block), fmt.Sprintf("+%s ping@%d", last4(sender), block))
	}
	round(true)
	round(true)
	for range 40 { // so that these are final
		block++
		c.Commit()
	}
	db, b := ledgertest.Open(t), &book{t: t}
	stop := start(t, db, plan, "a", b)
	want(t, b, told...)
	round(true)
	want(t, b, told...)
	c.Reorg(1, true)
	block++ // one more than were replaced
	gone := told[len(told)-4:]
	for _, line := range []int{3, 2, 1, 0} {
		told = append(told, "-"+gone[line][1:])
	}
	want(t, b, told...)
	rows(t, db, `SELECT block_number, amount, "to", tx_from, tx_to, tx_failed FROM event_w_pay ORDER BY block_number`,
		"1 5 "+bob.Hex()+" "+sender.Hex()+" "+watchtest.Emitter(1).Hex()+" 0", "2 5 "+bob.Hex()+" "+sender.Hex()+" "+watchtest.Emitter(1).Hex()+" 0")
	rows(t, db, "SELECT block_number, address, tx_value, seq FROM event_w_transaction ORDER BY block_number", "1 "+bob.Hex()+" 1000000000000000001 1", "2 "+bob.Hex()+" 1000000000000000002 2")
	rows(t, db, "SELECT block_number, arg1, tx_failed FROM event_w_ping ORDER BY block_number", "1 8 1", "2 8 1")
	stop()

	for _, m := range b.all() {
		tx := m.Call
		var body map[string]any
		must.Do(t, json.Unmarshal(m.Body, &body))
		switch m.Event.Event {
		case "Approved":
			if tx != nil || body["transaction"] != nil {
				t.Errorf("a log with a transaction: %s", m.Body)
			}
		case "pay":
			if string(m.Args) != fmt.Sprintf(`{"amount":"5","to":"%s"}`, bob.Hex()) || m.Signature != "function pay(address,uint256)" || m.Topic0 != tx.Selector || tx.From != sender.Hex() || tx.Failed || m.Data != "" {
				t.Errorf("%s", m.Body)
			}
		case "transaction":
			if tx.Value != fmt.Sprintf("1%018d", m.BlockNumber) || tx.To != bob.Hex() || m.Topic0 != "" || tx.GasUsed != 21000 {
				t.Errorf("%s", m.Body)
			}
		case "ping":
			if !tx.Failed || tx.To != watchtest.Emitter(3).Hex() {
				t.Errorf("%s", m.Body)
			}
		}
	}

	// Another rule reads past blocks again, and finds only what it asks for. An address whose events are followed, too, has those again.
	plan.Watches[0].Transactions = append(plan.Watches[0].Transactions, watch.Transactions{To: []common.Address{watchtest.Emitter(3)}, Functions: []*decode.Signature{pay}})
	diff := differences(t, db, plan)
	if len(diff) != 2 || !strings.Contains(diff[0], "new addresses "+watchtest.Emitter(3).Hex()) || !strings.Contains(diff[1], "new transactions to "+watchtest.Emitter(3).Hex()+"; calling pay(address,uint256): blocks 0 to ") {
		t.Errorf("%q", diff)
	}
	plan.Watches[0].Addresses = append(plan.Watches[0].Addresses, watchtest.Emitter(3))
	start(t, db, plan, "a", b)
	told = append(told, "+"+short(3)+" Approved@1", "+"+short(3)+" Approved@2")
	want(t, b, told...)
	counts := must.Get(ledgertest.Pairs[int, int](t, db, "SELECT COUNT(*), SUM(announced) FROM chain_events"))(t)
	if diff := cmp.Diff(map[int]int{14: 10}, counts); diff != "" {
		t.Error(diff)
	}
}

// TestTransactionsBelongToOneAddress: of a transaction that two rules ask for there is one event, whichever processes read the two addresses.
func TestTransactionsBelongToOneAddress(t *testing.T) {
	c := watchtest.New(t, 10)
	w := given(t, "w", 1)
	w.Events = nil
	w.Addresses = nil
	for n := range 10 {
		w.Addresses = append(w.Addresses, watchtest.Emitter(n))
	}
	w.Transactions = []watch.Transactions{{}, {From: []common.Address{c.Sender()}}}
	plan := escrows(t, c.URL)
	plan.Watches = []watch.Watch{w}
	db, b := ledgertest.Open(t), &book{t: t}
	for _, name := range []string{"a", "b", "c"} {
		start(t, db, plan, name, b)
	}
	var told []string
	for block := 1; block < 4; block++ {
		for n := range 10 {
			c.Transact(watchtest.Emitter(n), enough, new(big.Int), calling(t, "pay(address,uint256)", bob, 5))
			told = append(told, fmt.Sprintf("+%s transaction@%d", c.Sender().Hex()[38:], block)) // rules with addresses go first
		}
		c.Commit()
	}
	want(t, b, told...)
}
