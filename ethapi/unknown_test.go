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
		{"engine_newPayloadV1", rpc.TransportHTTP, true, eth.ErrUnsupportedMethod()},
		{"engine_newPayloadV1", rpc.TransportWebSocket, false, eth.ErrUnsupportedMethod()},
		{"trace_block", rpc.TransportHTTP, true, eth.ErrNotYetImplemented()},
		{"debug_nope", rpc.TransportHTTP, true, eth.ErrNotYetImplemented()},
		{"debug_nope", rpc.TransportHTTP, false, eth.ErrMethodNotFound("debug_nope")},
		{"trace_block", rpc.TransportWebSocket, true, eth.ErrMethodNotFound("trace_block")},
		{"eth_subscribe", rpc.TransportWebSocket, true, eth.ErrUnsupportedMethod()},
		{"eth_subscribe", rpc.TransportWebSocket, false, eth.ErrMethodNotFound("eth_subscribe")},
		{"eth_subscribe", rpc.TransportHTTP, true, eth.ErrMethodNotFound("eth_subscribe")},
	} {
		if got := UnknownMethod(tt.name, tt.t, tt.served); got.Code != tt.want.Code || got.Message != tt.want.Message {
			t.Errorf("%s over %s, served %v: got %v, want %v", tt.name, tt.t, tt.served, got, tt.want)
		}
	}
}

func TestTiers(t *testing.T) {
	for name, want := range map[string]int{"eth_call": 1, "eth_chainId": 2, "web3_sha3": 3, "txpool_status": 0, "nope": 0} {
		if got := Tier(name); got != want {
			t.Errorf("%s: tier %d, want %d", name, got, want)
		}
	}
}
