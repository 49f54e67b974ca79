package watch_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/ledger"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/watch/watchtest"
)

// TestEventBeforeItsContractIsAnnounced has a contract log in the transaction that makes it, before the factory does.
func TestEventBeforeItsContractIsAnnounced(t *testing.T) {
	c := watchtest.New(t, 3)
	db, b := ledgertest.Open(t), &book{t: t}
	start(t, db, escrows(t, c.URL), "a", b)
	c.Commit() // 1
	c.EmitPair(watchtest.Emitter(1), watchtest.Input(released, watchtest.Word(common.Address{2}), watchtest.Number(7)),
		watchtest.Emitter(0), watchtest.Input(deployed, watchtest.Word(watchtest.Emitter(1)), watchtest.Number(9)))
	c.Commit() // 2
	want(t, b, "+"+short(1)+" Released@2", "+"+short(0)+" Deployed@2")
}

// tally is how many JSON-RPC calls an endpoint was sent, the items of batches one by one.
type tally struct {
	looks atomic.Int64 // that ask for the newest block: how many there are is a matter of time, not of blocks
	reads atomic.Int64 // all others
}

// counter is a proxy that counts the calls it forwards.
func counter(t *testing.T, target string) (string, *tally) {
	t.Helper()
	var calls tally
	u := must.Get(url.Parse(target))(t)
	proxy := httputil.NewSingleHostReverseProxy(u)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		looks := bytes.Count(body, []byte(`"latest"`)) + bytes.Count(body, []byte(`"finalized"`))
		calls.looks.Add(int64(looks))
		calls.reads.Add(int64(bytes.Count(body, []byte(`"method"`)) - looks))
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, &calls
}

// TestTenThousandContracts has three processes follow 10,000 contracts of a factory. The rows equal what one scan of the chain finds,
// and a block costs the endpoint few calls.
func TestTenThousandContracts(t *testing.T) {
	const children, blocks = 10_000 / slowdown, 10
	c := watchtest.New(t, children+1)
	for n := 1; n <= children; n++ {
		deploy(c, n, int64(n))
		if n%500 == 0 || n == children {
			c.Commit()
		}
	}
	endpoint, calls := counter(t, c.URL)
	db, b := ledgertest.Open(t), &book{t: t}
	plan := escrows(t, endpoint)
	for _, name := range []string{"a", "b", "c"} {
		start(t, db, plan, name, b)
	}
	caughtUp := func(total int) {
		watchtest.Until(t, "all events", func() (bool, error) {
			head, err := c.Client().BlockNumber(t.Context())
			if err != nil {
				return false, err
			}
			stored, err := ledgertest.One[int](t, db, "SELECT COUNT(*) FROM processed_events")
			behind, again := ledgertest.One[int](t, db, "SELECT COUNT(*) FROM escrow_registry WHERE last_monitored_block < $1", int64(head))
			err = errors.Join(err, again)
			return err == nil && stored >= total && behind == 0, errors.Join(fmt.Errorf("%d of %d stored, %d contracts are behind", stored, total, behind), err)
		})
	}
	caughtUp(children)
	watchtest.Until(t, "each process has its units", func() (bool, error) {
		owned, err := ledgertest.One[int](t, db, "SELECT COUNT(DISTINCT owner) FROM cursors")
		nobodys, again := ledgertest.One[int](t, db, "SELECT COUNT(*) FROM cursors WHERE owner = ''")
		err = errors.Join(err, again)
		return err == nil && owned == 3 && nobodys == 0, errors.Join(fmt.Errorf("%d owners, %d units without one", owned, nobodys), err)
	})
	total, looks, reads := children, calls.looks.Load(), calls.reads.Load()
	for block := range blocks {
		for n := range 20 {
			approve(c, 1+(block*997+n*499)%children)
		}
		c.Commit()
		total += 20
		caughtUp(total)
	}
	// Each of three processes reads a block once, with two lists of addresses at most and one header: 9 calls. No block costs more,
	// however long it takes. A query that names the events alone needs one call instead of two.
	each := float64(calls.reads.Load()-reads) / blocks
	t.Logf("%.1f calls for each block, and %.1f looks for the next one", each, float64(calls.looks.Load()-looks)/blocks)
	if each > 9 {
		t.Errorf("%.1f calls for each block", each)
	}
	logs := must.Get(c.Client().FilterLogs(t.Context(), ethereum.FilterQuery{FromBlock: new(big.Int)}))(t)
	want := map[string][]string{}
	for _, l := range logs {
		want[l.Address.Hex()] = append(want[l.Address.Hex()], fmt.Sprintf("%s:%d", strings.ToLower(l.TxHash.Hex()), l.Index))
	}
	got := map[string][]string{}
	must.Do(t, db.Read(t.Context(), func(tx *ledger.Tx) error {
		return tx.Query(t.Context(), "SELECT contract_address, event_id FROM processed_events ORDER BY block_number, event_id", nil, func(r ledger.Row) error {
			var address, id string
			err := r.Scan(&address, &id)
			got[address] = append(got[address], id)
			return err
		})
	}))
	for _, list := range []map[string][]string{want, got} {
		for address := range maps.Keys(list) {
			slices.Sort(list[address])
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
