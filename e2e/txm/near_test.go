package txm_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	devnear "lockstep/devnet/near"
	"lockstep/internal/must"
	"lockstep/internal/near"
	"lockstep/internal/secret"
	"lockstep/txmgr"
	"lockstep/txmgr/signers"
)

// nearID is the model's id in the ledger.
const nearID = 397

// accessKeyOf reads an access key of NEAR, given as account/secret.
func accessKeyOf(text string) txmgr.Key {
	account, key, _ := strings.Cut(text, "/")
	list, err := signers.OpenNEAR(signers.Config{NEARKeys: secret.String(fmt.Sprintf("{%q:[%q]}", account, key))})
	if err != nil {
		panic(err) // a constant of these tests
	}
	return list[0]
}

// nearnet is a model of NEAR that makes ten blocks a second.
type nearnet struct {
	t     testing.TB
	chain *devnear.Chain
	url   string
	key   string // as accessKeyOf takes it
}

func startNEAR(t testing.TB) *nearnet {
	t.Helper()
	developers, accounts := must.Get2(devnear.Developers())(t)
	n := &nearnet{t: t, chain: devnear.New(devnear.Config{Accounts: accounts})}
	for _, d := range developers {
		if d.ID == "relayer.test" {
			n.key = d.ID + "/" + d.SecretKey
		}
	}
	server := httptest.NewServer(n.chain)
	stop := make(chan struct{})
	var blocks sync.WaitGroup
	blocks.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				n.chain.Mine()
			case <-stop:
				return
			}
		}
	})
	t.Cleanup(func() {
		close(stop)
		blocks.Wait()
		server.Close()
	})
	n.url = server.URL
	return n
}

// node is the configuration of a process that sends from the relayer's key.
func (n *nearnet) node(ledger string) txmNode {
	return txmNode{
		Ledger: ledger, Chain: nearID, Driver: "near", URLs: []string{n.url}, Keys: []string{n.key}, Instance: "node",
		Lease: 4 * time.Second, Resend: 2 * time.Second, Timeout: time.Second,
	}
}

// nearIntent has an execution of its own: the counter takes no notice of the word.
func nearIntent(word []byte) (to string, data []byte) {
	data, err := near.EncodeActions([]near.Action{near.FunctionCall{Method: "increment", Args: fmt.Appendf(nil, `{"by":1,"word":"%x"}`, word), Gas: 30e12}})
	if err != nil {
		panic(err) // a constant but for the word
	}
	return "counter.test", data
}

// audit judges the ledger by the chain: every intent was executed as often as its fate says, no transaction was refused
// or overtaken, and the key's nonce is the ledger's.
func (n *nearnet) audit(c *caller) {
	n.t.Helper()
	runs := map[string]int{}
	var highest uint64
	for _, tx := range n.chain.Executed() {
		data := must.Get(near.EncodeActions(tx.Actions))(n.t)
		runs["0x"+hex.EncodeToString(data)]++
		if tx.Nonce <= highest {
			n.t.Errorf("nonce %d was executed behind %d", tx.Nonce, highest)
		}
		highest = tx.Nonce
		hash := must.Get(tx.Hash())(n.t)
		if c.count("SELECT count(*) FROM slots WHERE consumed = $1 AND signer = $2 AND CAST(nonce AS TEXT) = $3", hash.String(), accessKeyOf(n.key).Account(), fmt.Sprint(tx.Nonce)) != 1 {
			n.t.Errorf("the chain executed %s with nonce %d, and the ledger does not know", hash, tx.Nonce)
		}
	}
	c.judge(runs)
	lane := must.Get(c.store.Lane(context.WithoutCancel(n.t.Context()), fmt.Sprint(nearID), accessKeyOf(n.key).Account()))(n.t)
	if lane.NextNonce != highest+1 {
		n.t.Errorf("the chain's nonce is %d, the ledger's next %d", highest, lane.NextNonce)
	}
	if refusals := n.chain.Refusals(); len(refusals) != 0 {
		n.t.Errorf("the chain has refused %v", refusals)
	}
}

// TestNEARUnderFaults has a node that loses replies after it has acted and requests before it, that is congested and late:
// every intent is executed once, and each fate is the chain's.
func TestNEARUnderFaults(t *testing.T) {
	t.Parallel()
	const intents = 200
	n := startNEAR(t)
	c := newCaller(t, n.node(fmt.Sprintf("sqlite:%s/ledger.db", t.TempDir())))
	n.chain.Faults().Next("send_tx", devnear.Congested, 10)
	for _, method := range []string{"send_tx", "tx", "query", "block"} {
		for _, fault := range []devnear.Fault{devnear.LostReply, devnear.LostRequest, devnear.Late} {
			n.chain.Faults().Next(method, fault, 10)
		}
	}
	c.n.start(t)
	for range intents / 20 {
		c.many(20)
	}
	c.settledWithin(20 * time.Minute)
	n.audit(c)
	c.sameBytes()
	if left := n.chain.Faults().Left(); left != 0 {
		t.Errorf("%d faults were never met", left)
	}
	if got := c.count("SELECT count(*) FROM intents WHERE status = 'confirmed'"); got != intents {
		t.Errorf("%d of %d intents are confirmed", got, intents)
	}
}
