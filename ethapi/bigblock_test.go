package ethapi

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/mirrorrest"
	"lockstep/internal/must"
)

// archive is a real ledger whose blocks are full, behind a real mirror node interface.
// It is made while time stands still, so that a block holds what it is to hold however
// slow the machine is.
type archive struct {
	ledger *ledger.Ledger
	node   http.Handler
	hashes []common.Hash // of all transactions, block after block
	size   int           // transactions of a block
}

func newArchive(t *testing.T, blocks, size int) *archive {
	t.Helper()
	a := &archive{size: size}
	synctest.Test(t, func(t *testing.T) {
		const blockTime = 2 * time.Second
		var err error
		if a.ledger, err = ledger.New(ledger.Config{BlockTime: blockTime, HistoryBytes: 1 << 32}); err != nil {
			t.Fatal(err)
		}
		go func() { _ = a.ledger.Run(t.Context()) }()
		n := newSender(t, a.ledger)
		const senders = 10 // have an alias
		receiver := new(devaccounts.All()[senders-1].EVMAddress())
		for block := range blocks {
			for i := range size {
				if n.key, err = crypto.HexToECDSA(devaccounts.All()[i%senders].PrivateKey); err != nil {
					t.Fatal(err)
				}
				nonce := uint64(block*((size-1-i%senders)/senders+1) + i/senders)
				tx := n.dynamic(nonce, receiver, 1, 30_000, []byte("sixteen bytes of"))
				a.hashes = append(a.hashes, tx.Hash())
			}
			<-time.After(blockTime + time.Millisecond) // less than makes a block without transactions
			synctest.Wait()
		}
	})
	if head := a.ledger.View().LatestBlock().Number; head != int64(blocks) {
		t.Fatalf("%d blocks, want %d", head, blocks)
	}
	a.node = mirrorrest.New(mirrorrest.Config{View: a.ledger.View, Log: slog.New(slog.DiscardHandler)})
	return a
}

// ask makes a call and returns the answer's text.
func ask(t testing.TB, url, method, params string) string {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	answer := must.Get(http.Post(url, "application/json", strings.NewReader(body)))(t)
	defer answer.Body.Close()
	text := new(strings.Builder)
	text.Grow(int(max(answer.ContentLength, 0)))
	must.Get(io.Copy(text, answer.Body))(t)
	return text.String()
}

// Who goes through a chain makes three requests for a full block and two for a receipt:
// senders are known by their signatures, and prices by those around them.
func TestRequestsOfAScan(t *testing.T) {
	const blocks = 50
	a := newArchive(t, blocks, 20)
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.URL.RequestURI())
		mu.Unlock()
		a.node.ServeHTTP(w, r)
	}))
	defer server.Close()
	check := func(what string, most int, scan func(url string)) {
		t.Helper()
		asked = nil
		scan(newRelay(t, &mirrorNode{Server: server}).url)
		const beforehand = 3 // prices
		if len(asked) > most*blocks+beforehand {
			t.Errorf("%d %s took %d requests: %.2000s", blocks, what, len(asked), strings.Join(asked, "\n"))
		}
	}
	check("blocks", 3, func(url string) {
		for i := range blocks {
			if text := ask(t, url, "eth_getBlockByNumber", fmt.Sprintf(`["0x%x",true]`, i+1)); strings.Count(text, `"blockHash"`) != a.size {
				t.Fatal(text)
			}
		}
	})
	check("receipts", 2, func(url string) {
		for i := range blocks {
			if text := ask(t, url, "eth_getTransactionReceipt", fmt.Sprintf(`["%s"]`, a.hashes[i*a.size+7])); !strings.Contains(text, `"status":"0x1"`) {
				t.Fatal(text)
			}
		}
	})
}

// recorded answers as another handler did the first time, without the work.
type recorded struct {
	handler http.Handler
	mu      sync.Mutex
	answers map[string][]byte // guarded by mu
}

func (h *recorded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	body := h.answers[r.URL.RequestURI()]
	h.mu.Unlock()
	if body == nil {
		recorder := httptest.NewRecorder()
		h.handler.ServeHTTP(recorder, r)
		body = recorder.Body.Bytes()
		h.mu.Lock()
		h.answers[r.URL.RequestURI()] = body
		h.mu.Unlock()
	}
	_, _ = w.Write(body)
}

func (h *recorded) size() (bytes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, body := range h.answers {
		bytes += len(body)
	}
	return bytes
}

// A block of ten thousand transactions is shown whole. What that takes of memory is in
// proportion to the answers that are read and written.
func TestBigBlock(t *testing.T) {
	transactions := 10_000
	if testing.Short() || raceDetector {
		transactions = 1000
	}
	a := newArchive(t, 1, transactions)
	node := &recorded{handler: a.node, answers: make(map[string][]byte)}
	server := httptest.NewServer(node)
	defer server.Close()
	relay := newRelay(t, &mirrorNode{Server: server}, func(s *settings) {
		s.API.MaxFullTransactions = transactions + 1
		s.Mirror.CacheEntries = 0
	})
	read := func() string { return ask(t, relay.url, "eth_getBlockByNumber", `["0x1",true]`) }
	read() // what is made once is made now
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	text := read()
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	if got := strings.Count(text, `"blockHash"`); got != transactions {
		t.Fatalf("%d transactions: %.200s", got, text)
	}
	allocated, through := int(after.TotalAlloc-before.TotalAlloc), node.size()+len(text)
	t.Logf("%d bytes read and %d answered in %s; %d allocated", node.size(), len(text), took, allocated)
	if most := 14 * through; allocated > most {
		t.Errorf("%d bytes were allocated for %d that went through", allocated, through)
	}
}
