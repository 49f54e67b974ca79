package ethapi

import (
	"context"
	"errors"
	"testing"

	"lockstep/internal/eth"
	"lockstep/rpc"
)

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
