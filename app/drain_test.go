package app_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rpc"
)

// errNotBegun is the error of a transaction that the relay did not take, since it goes: the client asks another one.
var errNotBegun = errors.New("the relay goes")

// overHTTP sends a transaction. It reports whether the relay told the client to go elsewhere afterwards.
func overHTTP(client *http.Client, url string, raw []byte) (hash common.Hash, leave bool, err error) {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":[%q]}`, hexutil.Encode(raw))
	response, err := client.Post(url, "application/json", strings.NewReader(body)) //nolint:noctx // the relay ends it
	if errors.Is(err, syscall.ECONNREFUSED) {
		return hash, true, errNotBegun
	}
	if err != nil {
		return hash, true, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	var a answer
	if err = errors.Join(err, json.Unmarshal(text, &a)); err == nil && a.Error != nil {
		err = errors.New(a.String())
	}
	if err != nil {
		return hash, true, fmt.Errorf("status %d: %w", response.StatusCode, err)
	}
	return hash, response.Close, json.Unmarshal(a.Result, &hash)
}

// overWS sends a transaction. A connection that ends without an answer says that the transaction was not begun.
func overWS(t *testing.T, client *rpc.Client, raw []byte) (hash common.Hash, err error) {
	err = client.CallContext(t.Context(), &hash, "eth_sendRawTransaction", hexutil.Encode(raw))
	var refused rpc.Error
	if err != nil && !errors.As(err, &refused) {
		return hash, errNotBegun
	}
	return hash, err
}

// Senders over HTTP and WebSocket go on while a relay stops, and then use another one. Readiness says 503 before any connection is
// refused. No request over HTTP is broken off; a WebSocket that ends has answered all that it took. Every transaction is executed,
// once.
func TestDrainUnderLoadLosesNoTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.relay(t, "ENABLE_NONCE_ORDERING=true", "SHUTDOWN_DRAIN_DELAY_MS=10000", "SHUTDOWN_DRAIN_TIMEOUT_MS=120000", "SERVER_DRAIN_TIMEOUT_MS=120000")
	other := w.relay(t)
	const pairs, more = 3, 2 // senders over each of both; transactions that each sends to the other relay
	var answered, left atomic.Int64
	var load sync.WaitGroup
	sent := map[*account]*uint64{}
	for i := range 2 * pairs {
		a, nonce := w.account(t), new(uint64)
		sent[a] = nonce
		load.Go(func() {
			next := func() (*types.Transaction, []byte) {
				tx := a.sign(a.pay(*nonce))
				raw, err := tx.MarshalBinary()
				if err != nil {
					t.Error(err)
				}
				return tx, raw
			}
			var send func(raw []byte) (common.Hash, bool, error)
			if i%2 == 0 {
				client := &http.Client{Transport: &http.Transport{}}
				defer client.CloseIdleConnections()
				send = func(raw []byte) (common.Hash, bool, error) { return overHTTP(client, r.url, raw) }
			} else {
				client, err := rpc.DialContext(t.Context(), "ws://"+r.app.WSAddr())
				if err != nil {
					t.Error(err)
					return
				}
				defer client.Close()
				send = func(raw []byte) (common.Hash, bool, error) {
					hash, err := overWS(t, client, raw)
					return hash, false, err
				}
			}
			pace := time.NewTicker(50 * time.Millisecond)
			defer pace.Stop()
			for leave := false; !leave; <-pace.C {
				tx, raw := next()
				var hash common.Hash
				var err error
				hash, leave, err = send(raw)
				if errors.Is(err, errNotBegun) {
					break
				}
				if err != nil || hash != tx.Hash() {
					t.Errorf("sender %d, nonce %d: %v %s", i, *nonce, err, hash)
					return
				}
				*nonce++
				answered.Add(1)
			}
			left.Add(1)
			for range more {
				other.until("the other relay knows of what was executed", func() bool { return other.count(a, "latest") >= *nonce })
				tx, _ := next()
				if got := other.send(tx); got.Error != nil {
					t.Errorf("sender %d, nonce %d, at the other relay: %s", i, *nonce, got)
					return
				}
				*nonce++
			}
		})
	}
	eventually(t, "there is load", func() bool { return answered.Load() > 20*pairs })
	r.stop()
	probe := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	seen := map[int]int{}
	eventually(t, "the port is closed", func() bool {
		answer, err := probe.Get(r.url + "/health/readiness")
		if err == nil {
			_ = answer.Body.Close()
			seen[answer.StatusCode]++
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	if seen[http.StatusServiceUnavailable] == 0 {
		t.Errorf("connections are refused, and readiness said before: %v", seen)
	}
	load.Wait()
	if n := left.Load(); n != 2*pairs {
		t.Errorf("%d senders went to the other relay", n)
	}
	for a, nonce := range sent {
		other.until(fmt.Sprintf("all %d transactions of %s are executed", *nonce, a.address), func() bool { return other.count(a, "latest") == *nonce })
	}
	t.Logf("%d transactions were answered before the end; readiness: %v", answered.Load(), seen)
}
