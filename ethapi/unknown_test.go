package ethapi

import (
	"testing"

	"lockstep/internal/eth"
	"lockstep/rpc"
)

func TestUnknownMethod(t *testing.T) {
	for _, tt := range []struct {
		name   string
		t      rpc.Transport
		served bool
		want   *eth.Error
	}{
		{"eth_nope", rpc.TransportHTTP, true, eth.ErrMethodNotFound("eth_nope")},
		{"engine_newPayloadV1", rpc.TransportHTTP, true, eth.ErrUnsupportedMethod},
		{"engine_newPayloadV1", rpc.TransportWebSocket, false, eth.ErrUnsupportedMethod},
		{"trace_block", rpc.TransportHTTP, true, eth.ErrNotYetImplemented},
		{"debug_nope", rpc.TransportHTTP, true, eth.ErrNotYetImplemented},
		{"debug_nope", rpc.TransportHTTP, false, eth.ErrMethodNotFound("debug_nope")},
		{"trace_block", rpc.TransportWebSocket, true, eth.ErrMethodNotFound("trace_block")},
		{"eth_subscribe", rpc.TransportWebSocket, true, eth.ErrUnsupportedMethod},
		{"eth_subscribe", rpc.TransportWebSocket, false, eth.ErrMethodNotFound("eth_subscribe")},
		{"eth_subscribe", rpc.TransportHTTP, true, eth.ErrMethodNotFound("eth_subscribe")},
	} {
		if got := UnknownMethod(tt.name, tt.t, tt.served); got.Code != tt.want.Code || got.Message != tt.want.Message {
			t.Errorf("%s over %s, served %v: got %v, want %v", tt.name, tt.t, tt.served, got, tt.want)
		}
	}
}

// What costs most is in the first tier: what runs code, here or on the mirror node, and what is submitted.
func TestTiers(t *testing.T) {
	for name, want := range map[string]int{
		"eth_call": 1, "eth_estimateGas": 1, "eth_createAccessList": 1, "eth_simulateV1": 1, "eth_sendRawTransaction": 1, "debug_traceCall": 1, "debug_traceTransaction": 1,
		"eth_chainId": 2, "eth_getLogs": 2, "web3_sha3": 3, "txpool_status": 0, "nope": 0,
	} {
		if got := Tier(name); got != want {
			t.Errorf("%s: tier %d, want %d", name, got, want)
		}
	}
}

// What reads much waits for a permit, and traces take more places than lists.
func TestWeights(t *testing.T) {
	want := map[string]int{
		"eth_getLogs": weightLists, "eth_getFilterLogs": weightLists, "eth_getFilterChanges": weightLists, "eth_getBlockReceipts": weightLists, "eth_feeHistory": weightLists,
		"debug_traceTransaction": weightTrace, "debug_traceBlockByNumber": weightTrace, "debug_traceBlockByHash": weightTrace,
		"eth_chainId": 0, "eth_blockNumber": 0, "eth_getBalance": 0,
	}
	for _, m := range newRelay(t, newMirrorNode(t), debugging).api.Methods() {
		if weight, named := want[m.Name]; named && m.Weight != weight {
			t.Errorf("%s weighs %d, want %d", m.Name, m.Weight, weight)
		}
		delete(want, m.Name)
	}
	if len(want) > 0 || weightTrace <= weightLists {
		t.Errorf("not there: %v; a trace weighs %d", want, weightTrace)
	}
}
