package app_test

import (
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/must"
)

// The line about a transaction says with which request it came and from whom, its gas and why it
// was refused; addresses are spelt in one way in all lines.
func TestTransactionLineNamesRequestClientGasAndReason(t *testing.T) {
	w := newWorld(t)
	for setting, client := range map[string]string{
		"full": " client=198.51.100.7 ", "network": " client=198.51.100.0/24 ", "none": "",
	} {
		r, sender := w.relay(t, "ENABLE_NONCE_ORDERING=true", "LOG_CLIENT_ADDRESS="+setting), w.account(t)
		unpaid := sender.pay(0)
		unpaid.GasFeeCap = big.NewInt(1)
		tx := sender.sign(unpaid)
		raw := must.Get(tx.MarshalBinary())(t)
		ask(t, http.MethodPost, r.url, `{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["`+hexutil.Encode(raw)+`"]}`,
			"X-Request-Id", "request-7", "X-Forwarded-For", "198.51.100.7")
		raw = must.Get(sender.sign(sender.pay(0)).MarshalBinary())(t)
		ask(t, http.MethodPost, r.url, `{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["`+hexutil.Encode(raw)+`"]}`, "X-Request-Id", "request-8")
		r.until("both lines", func() bool { return len(r.log.with(outcomeLine)) == 2 })
		lines := r.log.with(outcomeLine)
		if len(lines) != 2 {
			t.Fatalf("%d lines: %q", len(lines), lines)
		}
		for _, part := range []string{" request_id=request-7 ", client, " gas=" + strconv.Itoa(1_000_000) + " ", " reason=", " sender=" + strings.ToLower(sender.address.Hex()) + " "} {
			if !strings.Contains(lines[0], part) {
				t.Errorf("%s: no %q in %s", setting, part, lines[0])
			}
		}
		if client == "" && strings.Contains(lines[0], "client=") {
			t.Errorf("the client is named: %s", lines[0])
		}
		for _, line := range r.log.with(sender.address.Hex()) {
			t.Errorf("an address with capitals: %s", line)
		}
		// So do the lines of the lock and the consensus client, each once.
		for _, what := range []string{"lock acquired", "lock released", "offered transaction"} {
			r.until(what, func() bool { return len(r.log.with(what)) > 0 })
			if said := r.log.with(what); strings.Count(said[len(said)-1], "request_id=request-8") != 1 {
				t.Errorf("%s: %s", what, said)
			}
		}
	}
}
