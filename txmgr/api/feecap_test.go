package api_test

import (
	"fmt"
	"strings"
	"testing"

	"lockstep/internal/secret"
	"lockstep/txmgr/service"
)

// TestFeeCapOfChain: a chain's own cap stands in for that of all chains, higher or lower. Nothing is
// sent for more; what cannot be sent for less waits and says so.
func TestFeeCapOfChain(t *testing.T) {
	t.Parallel()
	const most = "3000000000" // the chain asks for more than 3.5 gwei, and for 1 at least
	for _, row := range []struct {
		own  string
		all  uint64
		paid string // "" for waiting
	}{
		{`"` + most + `"`, 1, most},
		{most, 0, most},
		{`1`, 0, ""},
		{`"1"`, 100_000_000_000, ""},
	} {
		t.Run(fmt.Sprintf("%s before %d", row.own, row.all), func(t *testing.T) {
			t.Parallel()
			w := start(t, func(c *service.Config) {
				c.Chains.Chains = secret.String(`{"1337":{"driver":"sim","maxFeePerGas":` + row.own + `}}`)
				c.Manager.MaxFeePerGas = row.all
			})
			tx := w.post("/v1/transactions", pay(1)).transaction(t)
			w.until("it is confirmed, or waits", func() bool {
				tx = w.get("/v1/transactions/" + tx.ID).transaction(t)
				return tx.Status == "confirmed" || strings.HasPrefix(tx.Waiting, "fee_cap")
			})
			switch {
			case row.paid == "":
				if len(tx.Attempts) != 0 || tx.Status != "accepted" {
					t.Errorf("above its cap it is %s with %d attempts", tx.Status, len(tx.Attempts))
				}
			case len(tx.Attempts) != 1 || tx.Attempts[0].MaxFeePerGas == nil || tx.Attempts[0].MaxFeePerGas.Int.String() != row.paid:
				t.Errorf("it is %s after the attempts %+v, want one for %s", tx.Status, tx.Attempts, row.paid)
			}
		})
	}
}

// TestFeeCapRefused: what is no price is refused before anything starts.
func TestFeeCapRefused(t *testing.T) {
	for _, text := range []string{`-1`, `"-1"`, `1.5`, `1e9`, `"0x10"`, `"a"`, `true`, `{}`} {
		chains := service.Chains{Chains: secret.String(`{"1":{"url":["http://127.0.0.1:1"],"maxFeePerGas":` + text + `}}`)}
		if list, err := chains.Parse(); err == nil {
			t.Errorf("maxFeePerGas %s is taken: %v", text, list)
		}
	}
	for _, text := range []string{`0`, `"0"`, `1`, `"340282366920938463463374607431768211456"`} {
		chains := service.Chains{Chains: secret.String(`{"1":{"url":["http://127.0.0.1:1"],"maxFeePerGas":` + text + `}}`)}
		if _, err := chains.Parse(); err != nil {
			t.Errorf("maxFeePerGas %s: %v", text, err)
		}
	}
}
