package ethapi

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/eth"
	"lockstep/internal/must"
	"lockstep/rpc"
)

var otherContract = common.HexToAddress("0x00000000000000000000000000000000000aaaaa")

// TestSubscribeErrors: what is refused, and how, in both profiles.
func TestSubscribeErrors(t *testing.T) {
	known := text(contract)
	off := func(c *settings) { c.API.Subscriptions.Enabled = false }
	noHeads := func(c *settings) { c.API.Subscriptions.NewHeads = false }
	several := func(c *settings) {
		c.API.Subscriptions.MultipleAddresses, c.API.Subscriptions.AddressLimit = true, 2
	}
	plain := func(*settings) {}
	const unsupported = "-32601 Unsupported JSON-RPC method"
	three := `["0x01` + strings.Repeat("0", 38) + `","0x02` + strings.Repeat("0", 38) + `","0x03` + strings.Repeat("0", 38) + `"]`
	tests := []struct {
		name, method, params string
		change               func(*settings)
		hiero, ethereum      string // "": accepted
	}{
		{"off", "subscribe", `["newHeads"]`, off, "-32207 WS Subscriptions are disabled", "-32207 WS Subscriptions are disabled"},
		{"off", "unsubscribe", `["0x1"]`, off, "-32207 WS Subscriptions are disabled", "-32207 WS Subscriptions are disabled"},
		{"no name", "subscribe", `[]`, plain, unsupported, "-32602 expected subscription name as first argument"},
		{"odd name", "subscribe", `[1]`, plain, unsupported, "-32602 expected subscription name as first argument"},
		{"unknown name", "subscribe", `["blocks"]`, plain, unsupported, `-32601 no "blocks" subscription in eth namespace`},
		{"heads off", "subscribe", `["newHeads"]`, noHeads, unsupported, `-32601 no "newHeads" subscription in eth namespace`},
		{"heads", "subscribe", `["newHeads"]`, plain, "", ""},
		{"heads, null", "subscribe", `["newHeads",null]`, plain, "", ""},
		{"heads in full", "subscribe", `["newHeads",{"includeTransactions":true}]`, plain, "", ""},
		{
			"heads, odd", "subscribe", `["newHeads",{"includeTransactions":"yes"}]`, plain,
			`-32602 Invalid parameter 'includeTransactions': Expected boolean type, value: "yes"`, `-32602 Invalid parameter 'includeTransactions': Expected boolean type, value: "yes"`,
		},
		{"heads, odder", "subscribe", `["newHeads",true]`, plain, "-32602 Invalid parameter 1: Expected an object, value: true", "-32602 Invalid parameter 1: Expected an object, value: true"},
		{"syncing", "subscribe", `["syncing"]`, plain, "", ""},
		{"pending", "subscribe", `["newPendingTransactions"]`, plain, "", ""},
		{"pending in full", "subscribe", `["newPendingTransactions",true]`, plain, "", ""},
		{"logs without a filter", "subscribe", `["logs"]`, plain, `-32603 Error invoking RPC: "Cannot convert undefined or null to object"`, ""},
		{"logs of everything", "subscribe", `["logs",{}]`, plain, "", ""},
		{"logs of null", "subscribe", `["logs",{"address":null,"topics":null}]`, plain, "-32602 Invalid parameter 'address' for EthSubscribeLogsParamsObject: Expected 0x prefixed string representing the address (20 bytes) or an array of addresses, value: null", ""},
		{"logs with more members", "subscribe", `["logs",{"fromBlock":"latest","x":1}]`, plain, "", ""},
		{"logs of a contract", "subscribe", `["logs",{"address":` + known + `}]`, plain, "", ""},
		{"logs of a token", "subscribe", `["logs",{"address":"` + tokenLog + `"}]`, plain, "", ""},
		{
			"logs of nothing", "subscribe", `["logs",{"address":"0x00000000000000000000000000000000000AAAAA"}]`, plain,
			"-32602 Invalid parameter filters.address: 0x00000000000000000000000000000000000aaaaa is not a valid contract or token type or does not exists", "",
		},
		{"logs of twice the same", "subscribe", `["logs",{"address":[` + known + `,` + known + `]}]`, plain, "", ""},
		{
			"logs of two", "subscribe", `["logs",{"address":[` + known + `,"` + tokenLog + `"]}]`, plain,
			"-32602 Invalid parameter filters.address: Only one contract address is allowed", "",
		},
		{"logs of two, allowed", "subscribe", `["logs",{"address":[` + known + `,"` + tokenLog + `"]}]`, several, "", ""},
		{
			"logs of too many", "subscribe", `["logs",{"address":` + three + `}]`, several,
			"-32602 Invalid parameter filters.address: A maximum of 2 contract addresses are allowed", "-32602 Invalid parameter filters.address: A maximum of 2 contract addresses are allowed",
		},
		{
			"logs, odd address", "subscribe", `["logs",{"address":"0x1"}]`, plain,
			`-32602 Invalid parameter 'address' for EthSubscribeLogsParamsObject: Expected 0x prefixed string representing the address (20 bytes) or an array of addresses, value: 0x1`,
			`-32602 Invalid parameter 'address' for EthSubscribeLogsParamsObject: Expected 0x prefixed string representing the address (20 bytes) or an array of addresses, value: 0x1`,
		},
		{
			"logs, odd topics", "subscribe", `["logs",{"topics":{}}]`, plain,
			`-32602 Invalid parameter 'topics' for EthSubscribeLogsParamsObject: Expected an array or array of arrays containing Expected 0x prefixed string representing the hash (32 bytes) of a topic, value: {}`,
			`-32602 Invalid parameter 'topics' for EthSubscribeLogsParamsObject: Expected an array or array of arrays containing Expected 0x prefixed string representing the hash (32 bytes) of a topic, value: {}`,
		},
		{"no id", "unsubscribe", `[]`, plain, "-32602 Missing value for required parameter 0", "-32602 Missing value for required parameter 0"},
		{"null id", "unsubscribe", `[null]`, plain, "-32602 Missing value for required parameter 0", "-32602 Missing value for required parameter 0"},
		{"odd id", "unsubscribe", `[7]`, plain, "-32602 Invalid parameter 0: Expected string type, value: 7", "-32602 Invalid parameter 0: Expected string type, value: 7"},
		{"unknown id", "unsubscribe", `["0x1"]`, plain, "", "-32000 subscription not found"},
	}
	for _, profile := range []rpc.Profile{rpc.ProfileHiero, rpc.ProfileEthereum} {
		for _, test := range tests {
			t.Run(string(profile)+"/"+test.name, func(t *testing.T) {
				l := idle(t, newFakeChain(1), test.change, func(s *settings) { s.RPC.Profile = profile })
				handler, want := l.Subscriptions.subscribe, test.hiero
				if test.method == "unsubscribe" {
					handler = l.unsubscribe
				}
				if profile == rpc.ProfileEthereum {
					want = test.ethereum
				}
				_, err := l.try(newFakeConn(), handler, test.params)
				got := ""
				if e, ok := errors.AsType[*eth.Error](err); ok {
					got = fmt.Sprintf("%d %s", e.Code, e.Message)
				} else if err != nil {
					got = err.Error()
				}
				if got != want {
					t.Errorf("%s%s\n got %s\nwant %s", test.method, test.params, got, want)
				}
			})
		}
	}
}

// TestSubscribeAnswerComesFirst: events of before the answer come after it; those of a
// subscription whose client was never told its id are nobody's.
func TestSubscribeAnswerComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := newFakeChain(1)
		l, conn := newLive(t, chain), newFakeConn()
		heads, sent := l.unanswered(conn, `["newHeads"]`)
		lost, notSent := l.unanswered(conn, `["newHeads"]`)
		chain.mine(3)
		<-time.After(2 * pollInterval)
		synctest.Wait()
		l.told("before the answer", conn, heads)
		sent(true)
		notSent(false)
		l.told("after the answer", conn, heads, 1, 2, 3)
		chain.mine(1)
		<-time.After(2 * pollInterval)
		synctest.Wait()
		l.told("later", conn, heads, 1, 2, 3, 4)
		l.told("without an answer", conn, lost)
		if got := number(t, l.metrics.subscriptions); got != 1 {
			t.Errorf("subscriptions: got %v, want 1", got)
		}
	})
}

// TestSubscribeUnansweredIsBounded: a client that does not even take its answer in is
// disconnected, not remembered without end.
func TestSubscribeUnansweredIsBounded(t *testing.T) {
	l, conn := idle(t, newFakeChain(1)), newFakeConn()
	l.unanswered(conn, `["newHeads"]`)
	event := &blockEvents{head: make([]byte, 1<<20)}
	for range 5 {
		l.hub.publishBlock(1, event)
	}
	if conn.tooSlow == 0 {
		t.Error("the connection was not closed")
	}
}

// TestSubscribeSameEvent: established relays give the same id for the same events, and
// it takes no further place; Ethereum nodes give a new one.
func TestSubscribeSameEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chain := newFakeChain(1)
		two := func(c *settings) { c.API.Subscriptions.Limit, c.API.Subscriptions.MultipleAddresses = 2, true }
		l, conn := newLive(t, chain, two, hiero), newFakeConn()
		one := l.subscribe(conn, `["logs",{"address":["`+tokenLog+`",`+text(contract)+`],"topics":[null]}]`)
		same := l.subscribe(conn, `["logs",{"topics":[],"address":[`+text(contract)+`,"`+tokenLog+`"],"extra":1}]`)
		if one != same {
			t.Errorf("got two ids for the same events: %s, %s", one, same)
		}
		heads := l.subscribe(conn, `["newHeads"]`)
		if heads != l.subscribe(conn, `["newHeads",{"includeTransactions":false}]`) {
			t.Error("got two ids for the same blocks")
		}
		_, err := l.try(conn, l.Subscriptions.subscribe, `["newHeads",{"includeTransactions":true}]`)
		if want := eth.ErrTooManySubscriptions; !cmp.Equal(err, error(want)) {
			t.Errorf("third subscription: got %v, want %v", err, want)
		}
		chain.mine(1)
		<-time.After(2 * pollInterval)
		synctest.Wait()
		l.told("one event each", conn, one, 1)

		ended, err := l.try(conn, l.unsubscribe, fmt.Sprintf(`[%q]`, one))
		if ended != true || err != nil {
			t.Errorf("unsubscribe: got %v, %v", ended, err)
		}
		ended, err = l.try(conn, l.unsubscribe, fmt.Sprintf(`[%q]`, one))
		if ended != false || err != nil {
			t.Errorf("unsubscribe again: got %v, %v", ended, err)
		}

		ethereum := newLive(t, newFakeChain(1))
		first, second := ethereum.subscribe(conn, `["newHeads"]`), ethereum.subscribe(conn, `["newHeads"]`)
		if first == second {
			t.Error("an Ethereum node would give two ids")
		}
	})
}

// TestSubscribeSharedPromise: an id that is given out twice lives if one of the two
// answers arrives.
func TestSubscribeSharedPromise(t *testing.T) {
	for _, arrives := range []int{-1, 0, 1} {
		l, conn := idle(t, newFakeChain(1), hiero), newFakeConn()
		_, first := l.unanswered(conn, `["newHeads"]`)
		_, second := l.unanswered(conn, `["newHeads"]`)
		first(arrives == 0)
		second(arrives == 1)
		want := 1.0
		if arrives < 0 {
			want = 0
		}
		if got := number(t, l.metrics.subscriptions); got != want {
			t.Errorf("arriving answer %d: %v subscriptions, want %v", arrives, got, want)
		}
	}
}

// TestSubscribeLimit: every connection has its own limit, and places become free.
func TestSubscribeLimit(t *testing.T) {
	l, conn := idle(t, newFakeChain(1)), newFakeConn()
	var last string
	for range 10 {
		last = l.subscribe(conn, `["logs",{}]`)
	}
	_, err := l.try(conn, l.Subscriptions.subscribe, `["logs",{}]`)
	if want := eth.ErrTooManySubscriptions; !cmp.Equal(err, error(want)) {
		t.Errorf("got %v, want %v", err, want)
	}
	l.subscribe(newFakeConn(), `["logs",{}]`)
	must.Get(l.try(conn, l.unsubscribe, fmt.Sprintf(`[%q]`, last)))(t)
	l.subscribe(conn, `["logs",{}]`)
}

// TestSubscribeForeignID: nobody ends another connection's subscription.
func TestSubscribeForeignID(t *testing.T) {
	l, conn := idle(t, newFakeChain(1)), newFakeConn()
	id := l.subscribe(conn, `["newHeads"]`)
	if _, err := l.try(newFakeConn(), l.unsubscribe, fmt.Sprintf(`[%q]`, id)); err == nil {
		t.Error("ended by a stranger")
	}
}

// TestSubscribeClose: with its connection everything of it goes, and nothing is left.
func TestSubscribeClose(t *testing.T) {
	l := idle(t, newFakeChain(1))
	for range 3 {
		conn := newFakeConn()
		l.subscribe(conn, `["newHeads"]`)
		l.subscribe(conn, `["logs",{"address":`+text(contract)+`}]`)
		l.subscribe(conn, `["logs",{}]`)
		l.subscribe(conn, `["logs",{"topics":[null,["0x`+strings.Repeat("0", 64)+`","0x`+strings.Repeat("1", 64)+`"]]}]`)
		l.subscribe(conn, `["newPendingTransactions"]`)
		conn.close()
	}
	h := l.hub
	if len(h.streams)+len(h.clients)+len(h.logs) != 0 || h.position.active || h.pendingStreams.Load() != 0 {
		t.Errorf("left behind: %d streams, %d clients, %d filters, position %+v", len(h.streams), len(h.clients), len(h.logs), h.position)
	}
	if got := number(t, l.metrics.lifetime); got != 15 {
		t.Errorf("lifetimes: got %v, want 15", got)
	}
}

// TestSubscribeLogFilters: addresses, also by their other name, and topics with null and
// alternatives.
func TestSubscribeLogFilters(t *testing.T) {
	even, odd, first := "0x"+strings.Repeat("00", 32), "0x01"+strings.Repeat("00", 31), "0x01"+strings.Repeat("00", 31)
	for filter, want := range map[string][]int{
		`{}`:                                      {1, 2, 3, 4},
		`{"address":` + text(contract) + `}`:      {1, 2, 3, 4},
		`{"address":"` + longZero + `"}`:          {1, 2, 3, 4},
		`{"address":` + text(otherContract) + `}`: nil,
		`{"address":[` + text(otherContract) + `,` + text(contract) + `]}`: {1, 2, 3, 4},
		`{"address":[]}`:                                                    {1, 2, 3, 4},
		`{"topics":["` + first + `"]}`:                                      {1, 2, 3, 4},
		`{"topics":[null,"` + odd + `"]}`:                                   {1, 3},
		`{"topics":[[],"` + even + `"]}`:                                    {2, 4},
		`{"topics":[null,["` + even + `","` + odd + `"]]}`:                  {1, 2, 3, 4},
		`{"topics":[null,["` + even + `",null]]}`:                           {1, 2, 3, 4},
		`{"topics":["` + first + `",null]}`:                                 {1, 2, 3, 4},
		`{"topics":["` + first + `",null,null]}`:                            nil, // there are two
		`{"topics":["` + even + `"]}`:                                       nil,
		`{"topics":[null,null,"` + odd + `"]}`:                              nil,
		`{"address":` + text(contract) + `,"topics":[null,"` + even + `"]}`: {2, 4},
	} {
		t.Run(filter, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				chain := newFakeChain(1)
				l, conn := newLive(t, chain), newFakeConn()
				id := l.subscribe(conn, `["logs",`+filter+`]`)
				chain.mine(4)
				<-time.After(2 * pollInterval)
				synctest.Wait()
				l.told("logs", conn, id, want...)
			})
		})
	}
}

// TestSubscribeSyncing: the answer to "are you syncing" is no, once.
func TestSubscribeSyncing(t *testing.T) {
	l, conn := idle(t, newFakeChain(1)), newFakeConn()
	id, sent := l.unanswered(conn, `["syncing"]`)
	if len(conn.got[id]) != 0 {
		t.Error("told before the answer")
	}
	sent(true)
	if diff := cmp.Diff([]string{"false"}, conn.got[id]); diff != "" {
		t.Error(diff)
	}
}

// TestSubscribePending: transactions that were accepted, in their order, as hashes or
// whole.
func TestSubscribePending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, sign := senderKey()
		l, conn := newLive(t, newFakeChain(1)), newFakeConn()
		send := func(nonce uint64) *types.Transaction {
			tx := sign(&types.DynamicFeeTx{ChainID: big.NewInt(298), Nonce: nonce, GasFeeCap: big.NewInt(9), GasTipCap: big.NewInt(2), Gas: 21000, To: &contract})
			raw := must.Get(tx.MarshalBinary())(t)
			l.Accepted(raw)
			return tx
		}
		send(0) // nobody wants to know
		hashes, whole := l.subscribe(conn, `["newPendingTransactions"]`), l.subscribe(conn, `["newPendingTransactions",true]`)
		var want []string
		for nonce := range uint64(5) {
			want = append(want, `"`+send(nonce+1).Hash().Hex()+`"`)
		}
		synctest.Wait()
		if diff := cmp.Diff(want, conn.got[hashes]); diff != "" {
			t.Errorf("hashes (-want +got)\n%s", diff)
		}
		if len(conn.got[whole]) != 5 {
			t.Fatalf("whole transactions: got %d, want 5", len(conn.got[whole]))
		}
		for i, text := range conn.got[whole] {
			for _, part := range []string{
				want[i], `"blockHash":null`, `"blockNumber":null`, `"transactionIndex":null`, fmt.Sprintf(`"nonce":"0x%x"`, i+1),
				`"maxFeePerGas":"0x9"`, `"maxPriorityFeePerGas":"0x2"`, `"chainId":"0x12a"`, `"from":"0x`,
			} {
				if !strings.Contains(text, part) {
					t.Errorf("transaction %d lacks %s: %s", i, part, text)
				}
			}
		}
	})
}

// TestSubscribePendingIsBounded: whoever submits is never held up, and what does not
// fit is counted.
func TestSubscribePendingIsBounded(t *testing.T) {
	l, conn := idle(t, newFakeChain(1)), newFakeConn() // nobody takes them out
	l.subscribe(conn, `["newPendingTransactions"]`)
	for range maxPending + 7 {
		l.Accepted([]byte{1})
	}
	if got := number(t, l.metrics.dropped); got != 7 {
		t.Errorf("dropped: got %v, want 7", got)
	}
}

// FuzzSubscribe: whatever is asked for is a subscription or an error for clients, and
// nothing is left when the connection has closed.
func FuzzSubscribe(f *testing.F) {
	for _, seed := range []string{
		`["newHeads"]`, `["newHeads",{"includeTransactions":true}]`, `["newPendingTransactions",true]`, `["syncing"]`, `["logs"]`, `["logs",null]`,
		`["logs",{"address":["0x05FbA803Be258049A27B820088bab1cAD2058871",null],"topics":[null,["0x1"],[]]}]`, `[["logs"],{}]`, `[null]`, `["\u006cogs",{"topics":[[[]]]}]`,
		`["logs",{"address":"0x00000000000000000000000000000000000004d2","topics":["` + transferID + `",null,["` + transferID + `",null]]}]`,
	} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, params string, hieroProfile bool) {
		p, ok := rpc.NewParams([]byte(params))
		if !ok {
			return
		}
		chain := newFakeChain(1)
		l, conn := idle(t, chain), newFakeConn()
		if hieroProfile {
			l = idle(t, chain, hiero)
		}
		ctx := rpc.WithRequest(t.Context(), rpc.Request{Conn: conn})
		for _, handler := range []func(context.Context, *rpc.Params) (any, error){l.Subscriptions.subscribe, l.unsubscribe} {
			result, err := handler(ctx, p)
			if answer, ok := result.(*rpc.Answer); ok {
				answer.Sent(true)
			}
			var known *eth.Error
			if err != nil && !errors.As(err, &known) {
				t.Fatalf("%s: %v", params, err)
			}
		}
		conn.close()
		if n := len(l.hub.streams) + len(l.hub.clients) + len(l.hub.logs); n != 0 {
			t.Fatalf("%s: %d things left", params, n)
		}
	})
}
