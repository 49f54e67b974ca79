package mirror

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/envx"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// held is a node whose answers wait until they are released.
func held(t *testing.T, body string) (n *node, arrived chan string, release chan struct{}) {
	n = newNode(t)
	arrived, release = make(chan string, 100), make(chan struct{})
	n.handler = func(w http.ResponseWriter, r *http.Request) {
		arrived <- r.URL.RequestURI()
		select {
		case <-release:
			fmt.Fprint(w, body)
		case <-r.Context().Done():
			arrived <- "gone"
		}
	}
	return n, arrived, release
}

func TestFreshHead(t *testing.T) {
	n := newNode(t)
	n.set(latestPath, blocksJSON("null", 17))
	client := connect(t, n.URL, func(c *Config) { c.Freshness = envx.Millis(time.Hour) })
	head := func(want uint64) {
		t.Helper()
		if block, err := client.LatestBlock(t.Context()); err != nil || block.Number != want {
			t.Errorf("head %v, %v; want %d", block, err, want)
		}
	}
	head(17)
	n.set(latestPath, blocksJSON("null", 18))
	head(17) // shared
	client.Invalidate()
	head(18) // a write happened
	n.set(latestPath, blocksJSON("null", 20))
	n.set("blocks/20", blockJSON(20))
	head(18)
	must.Get(client.BlockByNumber(t.Context(), 20))(t)
	head(20) // an answer told of a newer block
	if diff := cmp.Diff([]string{latestPath, latestPath, "blocks/20", latestPath}, n.requests()); diff != "" {
		t.Error(diff)
	}
}

func TestFreshnessEnds(t *testing.T) {
	n := newNode(t)
	n.set("network/fees", `{"fees":[{"gas":71,"transaction_type":"EthereumTransaction"}],"timestamp":"1.000000000"}`)
	client := connect(t, n.URL, func(c *Config) { c.Freshness = 0 })
	for range 3 {
		if fees, err := client.Fees(t.Context()); err != nil || fees.EthereumTransaction != 71 {
			t.Fatal(fees, err)
		}
	}
	if len(n.requests()) != 3 {
		t.Error("an interval of 0 shares what is not under way")
	}
}

// A read that began before a write must not serve a read that begins after it.
func TestInvalidateKeepsOutOfOldReads(t *testing.T) {
	n, arrived, release := held(t, `{"account":"0.0.1010","evm_address":"`+receiver+`","balance":{"balance":1},"ethereum_nonce":1}`)
	client := connect(t, n.URL)
	done := make(chan error, 2)
	read := func() { _, err := client.Account(t.Context(), address(receiver)); done <- err }
	go read()
	<-arrived
	client.Invalidate()
	go read()
	<-arrived // a request of its own
	close(release)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestErrorsAreNotShared(t *testing.T) {
	n := newNode(t)
	n.handler = func(w http.ResponseWriter, _ *http.Request) { fail(w, 500, "") }
	client := connect(t, n.URL, func(c *Config) { c.Freshness = envx.Millis(time.Hour) })
	if _, err := client.LatestBlock(t.Context()); err == nil {
		t.Fatal("no error")
	}
	n.set(latestPath, blocksJSON("null", 17))
	if block, err := client.LatestBlock(t.Context()); err != nil || block.Number != 17 {
		t.Errorf("%v, %v", block, err)
	}
}

// Those who ask for prices of one hour at the same time wait for the first of them, and
// then know more.
func TestPricesOfOneHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := &blocked{answer: `{"fees":[{"gas":71,"transaction_type":"EthereumTransaction"}]}`, release: make(chan struct{})}
		client := transport.client(t)
		var callers sync.WaitGroup
		for i := range 30 {
			callers.Go(func() {
				price, err := client.GasPriceAt(t.Context(), hedera.Timestamp{Seconds: int64(3600 + 100*i)})
				if price != 71 || err != nil {
					t.Errorf("%d %v", price, err)
				}
			})
		}
		synctest.Wait()
		close(transport.release)
		callers.Wait()
		if asked := transport.asked.Load(); asked > 3 { // for the first of them, and for both ends of the hour
			t.Errorf("asked %d times", asked)
		}
	})
}
