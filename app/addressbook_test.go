package app

import (
	"encoding/hex"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"lockstep/config"
	"lockstep/consensus"
	"lockstep/devnet"
	"lockstep/devnet/mirrorrest"
	"lockstep/internal/must"
	"lockstep/mirror"
)

// The list of nodes follows what the mirror node shows, and an answer that is no list
// changes nothing.
func TestAddressBook(t *testing.T) {
	var fault atomic.Value
	fault.Store(mirrorrest.Fault{})
	chain, err := devnet.New(t.Context(), devnet.Config{
		Consensus: "127.0.0.1:0", Mirror: "127.0.0.1:0", Nodes: 30, // more than a page
		MirrorFault: func(*http.Request) mirrorrest.Fault { return fault.Load().(mirrorrest.Fault) },
	})
	if err != nil {
		t.Fatal(err)
	}
	must.Run(t, chain.Run)

	log := slog.New(slog.DiscardHandler)
	cfg := must.Get(config.Load([]string{"READ_ONLY=true", "HEDERA_NETWORK=testnet", "MIRROR_NODE_URL=" + chain.Mirror()}))(t)
	reader := must.Get(mirror.New(cfg.Mirror, mirror.Options{Log: log}))(t)
	client := must.Get(consensus.New(cfg.Consensus, log))(t)
	defer client.Close()
	book := AddressBook(reader)

	for _, bad := range []mirrorrest.Fault{{Status: 500}, {Drop: true}, {Garbage: true}, {Status: 404}} {
		fault.Store(bad)
		before := len(client.Nodes())
		if err := client.Refresh(t.Context(), book); err == nil || len(client.Nodes()) != before {
			t.Errorf("%+v: error %v, %d nodes of %d", bad, err, len(client.Nodes()), before)
		}
	}
	fault.Store(mirrorrest.Fault{})
	must.Do(t, client.Refresh(t.Context(), book))
	want := chain.Nodes()
	nodes := client.Nodes()
	if len(nodes) != len(want) {
		t.Fatalf("%d nodes, want %d", len(nodes), len(want))
	}
	for _, node := range nodes {
		if len(node.Endpoints) != 1 || want[node.Endpoints[0]] != node.ID.String() {
			t.Errorf("node %s at %v", node.ID, node.Endpoints)
		}
	}
}

func TestBookEntries(t *testing.T) {
	for text, want := range map[string]string{
		"3.4.5.6:50211 3.4.5.6:50212 3.4.5.6:443": "3.4.5.6:50211 3.4.5.6:50212",
		"node.example:5000":                       "node.example:5000",
		"":                                        "",
	} {
		if got := strings.Join(grpcEndpoints(strings.Fields(text)), " "); got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
	hash := strings.Repeat("5a", 48)
	for text, want := range map[string]string{"": "", "0x": "", hash: hash, "0x" + hash: hash, "0x" + hex.EncodeToString([]byte(hash)): hash} {
		got, err := certHash(text)
		if err != nil || hex.EncodeToString(got) != want {
			t.Errorf("%q gives %x, %v", text, got, err)
		}
	}
	for _, bad := range []string{"0x5a", "zz", hash + "5a"} {
		if _, err := certHash(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
