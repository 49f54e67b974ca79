package txm_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"lockstep/e2e/harness"
	"lockstep/internal/ledger"
	"lockstep/txmgr"
)

// older makes a ledger as the manager of the first schema left it, with data.
func older(t *testing.T, url string) {
	t.Helper()
	first, err := os.ReadFile("testdata/older/migrations/0001_txm.sql")
	if err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile("../../txmgr/sqlstore/migrations/0001_txm.sql"); err != nil || !bytes.Equal(now, first) {
		t.Fatalf("the first migration is not what it was (%v): databases that have it will never see the change; write another one", err)
	}
	data, err := os.ReadFile("testdata/older/data.sql")
	if err != nil {
		t.Fatal(err)
	}
	db, err := ledger.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.Migrate(t.Context(), ledger.Schema{Name: "txm", Files: os.DirFS("testdata/older")}); err != nil {
		t.Fatal(err)
	}
	err = db.Write(t.Context(), func(tx *ledger.Tx) error {
		for statement := range strings.SplitSeq(strings.TrimSuffix(string(data), ";\n"), ";\n") {
			if _, err := tx.Exec(t.Context(), statement); err != nil {
				return fmt.Errorf("%w in %s", err, statement)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestOlderLedger starts two processes at once on the ledger of an older one: it is brought
// up to date once, what waited in it is executed, and what was remembered still counts.
func TestOlderLedger(t *testing.T) {
	t.Parallel()
	ledgers(t, func(t *testing.T, fresh func(*testing.T) string) {
		database := fresh(t)
		older(t, database)
		chain := startAnvil(t)
		urls := map[string]string{}
		for _, name := range []string{"one", "two"} {
			urls[name] = fmt.Sprintf("http://127.0.0.1:%d", freePort(t))
			cmd := exec.Command(harness.Program(t), "txm")
			cmd.Dir = t.TempDir()
			cmd.Env = append(harness.Environment(), "DATABASE_URL="+database, "TXM_CHAINS=31337="+chain.url, "RELAYER_PRIVATE_KEYS="+devKeys[0],
				"INSTANCE_ID="+name, "TXM_ADDRESS="+strings.TrimPrefix(urls[name], "http://"))
			run(t, cmd)
		}
		for name, url := range urls {
			until(t, name+" is ready", func() bool { return ask("GET", url+"/health/readiness", "", "", nil) == 200 })
		}
		c := newCaller(t, txmNode{Ledger: database, Chain: 31337, URLs: []string{chain.url}})
		c.reaches("tx_waits", txmgr.StatusConfirmed)
		for name, url := range urls {
			body := `{"chain":31337,"to":"` + counter + `","gas":60000,"simulate":"off"}`
			for key, want := range map[string]int{"old-0": 422, "old-1": 422, "old-2": 422} { // past its retention, mined, cancelled: each with another body
				if status := ask("POST", url+"/v1/transactions", body, key, nil); status != want {
					t.Errorf("%s: the key %s is answered with %d, want %d", name, key, status, want)
				}
			}
			if status := ask("POST", url+"/v1/transactions", body, "new-1", nil); status/100 != 2 {
				t.Errorf("%s: a new key is answered with %d", name, status)
			}
			var hook struct{ Deliveries []struct{ ID, Status string } }
			if ask("GET", url+"/v1/webhooks/wh_old/deliveries", "", "", &hook) != 200 || len(hook.Deliveries) != 1 || hook.Deliveries[0].ID != "msg_old_1" {
				t.Errorf("%s: the old webhook's deliveries are %+v", name, hook)
			}
			var over struct{ Status string }
			if ask("GET", url+"/v1/transactions/tx_over", "", "", &over) != 200 || over.Status != "cancelled" {
				t.Errorf("%s: what was over is %+v", name, over)
			}
		}
		c.settled()
		if runs := c.executions(chain.url); runs["0x6f6c642d310000000000000000000000000000000000000000000000000000f1"] != 1 || len(runs) != 2 {
			t.Errorf("the chain ran %v", runs)
		}
		old := c.get("tx_over").Attempts
		if len(old) != 1 || old[0].Hash != "0xd1" || old[0].Tag != "a tag" || old[0].Offers != 3 || old[0].Term != 4 || old[0].Error == nil || !old[0].Ambiguous || old[0].Raw[1] != 0xaa {
			t.Errorf("the old attempt is %+v", old)
		}
		if n := c.count("SELECT count(*) FROM spend WHERE scope = 'gas/tenant/' AND held = '0' AND settled <> '100'"); n != 1 {
			t.Error("the old budget was not settled")
		}
	})
}
