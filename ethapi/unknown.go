package ethapi

import (
	"lockstep/internal/eth"
	"lockstep/rpc"
)

// UnknownMethod is the answer to a name that the method table does not have, or not on this transport. It
// distinguishes namespaces that exist on other chains from misspelt names. served says whether the transport
// serves the namespace of the name.
func UnknownMethod(name string, t rpc.Transport, served bool) *eth.Error {
	namespace := rpc.Namespace(name)
	switch {
	case namespace == "engine",
		served && t == rpc.TransportWebSocket && (name == "eth_subscribe" || name == "eth_unsubscribe"):
		return eth.ErrUnsupportedMethod()
	case served && t == rpc.TransportHTTP && (namespace == "trace" || namespace == "debug"):
		return eth.ErrNotYetImplemented()
	}
	return eth.ErrMethodNotFound(name)
}
