package watch_test

import (
	"encoding/json"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/ledger"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/watch"
	"lockstep/watch/decode"
	"lockstep/watch/watchtest"
)

// words are bytes as words of a log's data.
func words(data ...any) (list []common.Hash) {
	for _, d := range data {
		switch d := d.(type) {
		case int:
			list = append(list, watchtest.Number(int64(d)))
		case string:
			list = append(list, common.BytesToHash(common.RightPadBytes([]byte(d), 32)))
		}
	}
	return list
}

// TestWhatStrangersWrite has a factory announce a contract with a text that no database takes, and the contract log what cannot be
// decoded. All of it is handed on, and what follows, too.
func TestWhatStrangersWrite(t *testing.T) {
	ledgertest.Each(t, func(t *testing.T, db *ledger.DB) {
		c := watchtest.New(t, 2)
		b := &book{t: t}
		plan := escrows(t, c.URL)
		w := &plan.Watches[0]
		w.Factory.Event = signature(t, "Named(address indexed escrow, string payer, uint48 at)")
		w.Fields = []watch.Field{{Name: "payer", Event: "Named", Arg: "payer"}, {Name: "at", Event: "Named", Arg: "at"}, {Name: "amount", Event: "Released", Arg: "amount"}}
		w.Events = []*decode.Signature{signature(t, "Released(address indexed to, uint256 amount)"), signature(t, "Released(address indexed to)")}
		start(t, db, plan, "a", b)
		c.Emit(watchtest.Emitter(0), "Named(address,string,uint48)", watchtest.Word(watchtest.Emitter(1)), words(64, 1795372316, 3, "a\x00\xff")...)
		c.Emit(watchtest.Emitter(1), "Released(address,uint256)", watchtest.Word(watchtest.Emitter(1))) // without the amount
		c.Commit()
		c.Emit(watchtest.Emitter(1), "Released(address,uint256)", watchtest.Word(watchtest.Emitter(1)), words(7)...)
		c.Commit()
		told := []string{"+" + short(0) + " Named@1", "+" + short(1) + " Released@1", "+" + short(1) + " Released@2"}
		want(t, b, told...)
		fields := func() (status, text string) {
			for status, text := range must.Get(ledgertest.Pairs[string, string](t, db, "SELECT status, fields FROM contracts WHERE kind = 'child'"))(t) {
				return status, text
			}
			return "", ""
		}
		if status, text := fields(); status != "released" || text != `{"amount":"7","at":"1795372316","payer":"a\u0000�"}` {
			t.Errorf("the contract is %s, with %s", status, text)
		}
		for _, m := range b.all() {
			if m.Undecoded != (m.BlockNumber == 1 && m.Event.Event == "Released") {
				t.Errorf("%s", m.Body)
			}
			if m.Undecoded && (len(m.Topics) != 2 || m.Data != "0x" || m.Signature != "Released(address,uint256)" || m.Topics[0] != m.Topic0) {
				t.Errorf("%s", m.Body)
			}
			if m.Event.Event == "Named" && m.Hex["payer"] != "0x6100ff" {
				t.Errorf("%s", m.Body)
			}
		}
		c.Emit(watchtest.Emitter(1), "Released(address)", watchtest.Word(watchtest.Emitter(1)))
		c.Commit()
		want(t, b, append(told, "+"+short(1)+" Released@3")...)
		_, text := fields()
		var after map[string]*string
		if err := json.Unmarshal([]byte(text), &after); err != nil || after["amount"] != nil || after["at"] == nil {
			t.Errorf("%s, %v: an overload without the argument", text, err)
		}
	})
}
