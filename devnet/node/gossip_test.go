package node

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// Transactions of one sender given to different nodes overtake each other, and the
// network refuses those that come out of turn.
func TestDifferentNodesReorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newNetwork(t, Config{Nodes: 3, Latency: time.Second, Jitter: time.Second, Seed: 7})
		stop := must.Run(t, network.gossip.run)
		o, p, to := &order{t: t}, dev(t, 0), dev(t, 1)
		const count = 30
		for i := range uint64(count) {
			n := network.Nodes()[i%3]
			b := o.body(p, ethereum(t, p, i, &to.at, 21_000))
			b.NodeAccountID = n.Account().AccountID()
			if got := submit(t, n, o.sign(b, p.key)); got != hapi.ResponseCodeEnum_OK {
				t.Fatal(got)
			}
		}
		<-time.After(3 * time.Second) // fake time
		synctest.Wait()
		log := network.cfg.Ledger.View().ConsensusLog(0, count+1)
		wrong, byNode := 0, map[hedera.ID][]uint64{}
		for _, e := range log {
			byNode[e.Node] = append(byNode[e.Node], e.Nonce)
			if e.Status == hapi.ResponseCodeEnum_WRONG_NONCE {
				wrong++
			}
		}
		if len(log) != count || wrong == 0 {
			t.Errorf("%d at consensus with %d wrong nonces: no reordering", len(log), wrong)
		}
		for id, nonces := range byNode {
			if !slices.IsSorted(nonces) {
				t.Errorf("node %s: %v", id, nonces)
			}
		}
		stop()
	})
}

// Receipts are unknown on the way, and there at the moment of consensus.
func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newNetwork(t, Config{Latency: time.Second})
		stop := must.Run(t, network.gossip.run)
		n := network.Nodes()[0]
		o, p := &order{t: t}, dev(t, 0)
		b := o.body(p, transfer(p.id.AccountID(), hedera.Entity(1003).AccountID(), 5))
		if got := submit(t, n, o.sign(b, p.key)); got != hapi.ResponseCodeEnum_OK {
			t.Fatal(got)
		}
		<-time.After(999 * time.Millisecond) // fake time
		synctest.Wait()
		if got := receipt(t, n, b.TransactionID).GetReceipt().GetStatus(); got != hapi.ResponseCodeEnum_UNKNOWN {
			t.Errorf("after 999 ms: %s", got)
		}
		<-time.After(time.Millisecond) // fake time
		synctest.Wait()
		if got := receipt(t, n, b.TransactionID).GetReceipt().GetStatus(); got != hapi.ResponseCodeEnum_SUCCESS {
			t.Errorf("after a second: %s", got)
		}
		stop()
	})
}

func TestFaults(t *testing.T) {
	unavailable := func(err error) bool { return status.Code(err) == codes.Unavailable }
	tests := []struct {
		name    string
		fault   Fault
		code    hedera.Status
		lost    bool // the call fails
		handled bool
	}{
		{"none", Fault{}, hapi.ResponseCodeEnum_OK, false, true},
		{"busy", Fault{Status: hapi.ResponseCodeEnum_BUSY}, hapi.ResponseCodeEnum_BUSY, false, false},
		{"lost before", Fault{DropBefore: true}, 0, true, false},
		{"lost after", Fault{DropAfter: true}, 0, true, true},
		{"vanished", Fault{Vanish: true}, hapi.ResponseCodeEnum_OK, false, false},
		{"forgotten", Fault{Lose: true}, hapi.ResponseCodeEnum_OK, false, false},
		{"slow", Fault{Delay: time.Minute}, hapi.ResponseCodeEnum_OK, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := newNetwork(t, Config{Fault: func(c Call) Fault {
					if c.Submission == nil {
						return Fault{}
					}
					return tt.fault
				}})
				n := network.Nodes()[0]
				o, p := &order{t: t}, dev(t, 0)
				b := o.body(p, transfer(p.id.AccountID(), hedera.Entity(1003).AccountID(), 5))
				began := time.Now()
				response, err := n.Submit(t.Context(), o.sign(b, p.key))
				if unavailable(err) != tt.lost || err == nil && response.GetNodeTransactionPrecheckCode() != tt.code {
					t.Errorf("answer %v, %v", response, err)
				}
				if took := time.Since(began); took != tt.fault.Delay {
					t.Errorf("took %s", took)
				}
				answer := receipt(t, n, b.TransactionID)
				if got := answer.GetReceipt().GetStatus(); (got == hapi.ResponseCodeEnum_SUCCESS) != tt.handled {
					t.Errorf("receipt %s", got)
				}
				known := answer.GetHeader().GetNodeTransactionPrecheckCode() != hapi.ResponseCodeEnum_RECEIPT_NOT_FOUND
				if known != (tt.handled || tt.fault.Vanish) {
					t.Errorf("the node knows the transaction: %t", known)
				}
			})
		})
	}
}

// Consensus refuses what a fault tells it to, and queries are busy.
func TestOutcomeFault(t *testing.T) {
	busy := false
	network := newNetwork(t, Config{Fault: func(c Call) Fault {
		if c.Query != nil && busy {
			return Fault{Status: hapi.ResponseCodeEnum_BUSY}
		}
		return Fault{Outcome: hapi.ResponseCodeEnum_CONSENSUS_GAS_EXHAUSTED}
	}})
	n := network.Nodes()[0]
	o, p, to := &order{t: t}, dev(t, 0), dev(t, 1)
	b := o.body(p, ethereum(t, p, 0, &to.at, 21_000))
	if got := submit(t, n, o.sign(b, p.key)); got != hapi.ResponseCodeEnum_OK {
		t.Fatal(got)
	}
	if got := receipt(t, n, b.TransactionID).GetReceipt().GetStatus(); got != hapi.ResponseCodeEnum_CONSENSUS_GAS_EXHAUSTED {
		t.Errorf("receipt %s", got)
	}
	a, _ := network.cfg.Ledger.View().Account(p.id)
	log := network.cfg.Ledger.View().ConsensusLog(0, 9)
	if a.Nonce != 0 || len(log) != 1 || log[0].Status != hapi.ResponseCodeEnum_CONSENSUS_GAS_EXHAUSTED {
		t.Errorf("nonce %d, log %+v", a.Nonce, log)
	}
	busy = true
	got := receipt(t, n, b.TransactionID)
	if got.GetHeader().GetNodeTransactionPrecheckCode() != hapi.ResponseCodeEnum_BUSY || got.GetReceipt() != nil {
		t.Errorf("query: %v", got)
	}
}

func TestSeenForgets(t *testing.T) {
	s := newSeen()
	now := time.Now()
	old, young := hedera.TransactionID{Payer: hedera.Entity(1)}, hedera.TransactionID{Payer: hedera.Entity(2)}
	if !s.add(old, now.Add(-time.Second)) || !s.add(young, now.Add(time.Hour)) || s.add(young, now.Add(time.Hour)) {
		t.Fatal("added wrongly")
	}
	if s.has(old) || !s.has(young) {
		t.Error("remembers wrongly")
	}
}

// Nothing that arrives at the door makes a node panic, and what does not pass the
// prechecks leaves no trace.
func FuzzSubmit(f *testing.F) {
	o, p := &order{t: f}, dev(f, 0)
	for _, b := range []*hapi.TransactionBody{
		transfer(p.id.AccountID(), hedera.Entity(1003).AccountID(), 5),
		ethereum(f, p, 0, nil, 60_000),
		{Data: &hapi.TransactionBody_FileCreate{FileCreate: &hapi.FileCreateTransactionBody{Contents: []byte("x")}}},
		{Data: &hapi.TransactionBody_CryptoCreateAccount{CryptoCreateAccount: &hapi.CryptoCreateTransactionBody{}}},
	} {
		f.Add(must.Get(proto.Marshal(o.sign(o.body(p, b), p.key)))(f))
	}
	l := must.Get(ledger.New(ledger.Config{}))(f)
	n := newNetwork(f, Config{Ledger: l}).Nodes()[0]
	f.Fuzz(func(t *testing.T, raw []byte) {
		tx := new(hapi.Transaction)
		if proto.Unmarshal(raw, tx) != nil {
			return
		}
		before := l.View().LatestBlock().Number
		code := submit(t, n, tx)
		if moved := l.View().LatestBlock().Number != before; moved != (code == hapi.ResponseCodeEnum_OK) {
			t.Errorf("%s, and the chain moved: %v", code, moved)
		}
	})
}

// Bodies of any form are handled without a panic once they pass the door: the fuzzer
// writes the body and this signs it.
func FuzzBody(f *testing.F) {
	p := dev(f, 0)
	for _, b := range []*hapi.TransactionBody{
		transfer(p.id.AccountID(), alias(p.at), 5),
		ethereum(f, p, 0, &p.at, 60_000),
		{Data: &hapi.TransactionBody_ContractCreateInstance{ContractCreateInstance: &hapi.ContractCreateTransactionBody{
			Gas: 100_000, AutoRenewPeriod: &hapi.Duration{Seconds: 7_776_000},
			InitcodeSource: &hapi.ContractCreateTransactionBody_Initcode{Initcode: []byte{0x60, 0, 0x60, 0, 0xf3}},
		}}},
		{Data: &hapi.TransactionBody_ContractCall{ContractCall: &hapi.ContractCallTransactionBody{Gas: 50_000, ContractID: p.id.ContractID()}}},
		{Data: &hapi.TransactionBody_CryptoUpdateAccount{CryptoUpdateAccount: &hapi.CryptoUpdateTransactionBody{AccountIDToUpdate: p.id.AccountID()}}},
		{Data: &hapi.TransactionBody_CryptoDelete{CryptoDelete: &hapi.CryptoDeleteTransactionBody{
			DeleteAccountID: hedera.Entity(1003).AccountID(), TransferAccountID: p.id.AccountID(),
		}}},
	} {
		f.Add(must.Get(proto.Marshal(b))(f))
	}
	l := must.Get(ledger.New(ledger.Config{History: 16}))(f)
	n := newNetwork(f, Config{Ledger: l}).Nodes()[0]
	f.Fuzz(func(t *testing.T, raw []byte) {
		b := new(hapi.TransactionBody)
		if proto.Unmarshal(raw, b) != nil {
			return
		}
		// What would end the body at the door is set right.
		b.TransactionID, b.NodeAccountID, b.TransactionValidDuration, b.Memo, b.BatchKey = nil, nil, nil, nil, nil
		b.TransactionFee = 0
		o := &order{t: t, nanos: int32(time.Now().Nanosecond() - 1)}
		submit(t, n, o.sign(o.body(p, b), p.key))
		total, _ := l.View().Supply()
		if total != 50_000_000_000*hedera.Hbar {
			t.Fatalf("the supply is %d", total)
		}
	})
}
