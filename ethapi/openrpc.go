package ethapi

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"lockstep/rpc"
)

//go:embed openrpc.json
var openRPC string

//go:embed openrpc_manager.json
var openRPCManager []byte

// OpenRPC returns the OpenRPC document that describes the methods in a profile, for a version of this relay. It
// describes all of them, even those that the settings switch off. Those that a transaction manager answers (relay_*) are
// there if there is one.
func OpenRPC(version string, profile rpc.Profile, manager bool) (json.RawMessage, error) {
	block, party := "false", "Address"
	if profile == rpc.ProfileHiero { // it requires the block, and has checksums in the pool
		block, party = "true", "AnyAddress"
	}
	var of struct{ Methods, Errors, Schemas json.RawMessage }
	if err := json.Unmarshal(openRPCManager, &of); err != nil {
		return nil, err
	}
	if !manager {
		of.Methods, of.Errors, of.Schemas = nil, nil, nil
	}
	text := strings.NewReplacer(
		`"@version@"`, string(quoted(version)), `"@block@"`, block, "@party@", party,
		`"@managerMethods@",`, members(of.Methods), `"@managerErrors@": {},`, members(of.Errors), `"@managerSchemas@": {},`, members(of.Schemas),
	).Replace(openRPC)
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(text)); err != nil {
		return nil, err
	}
	return compact.Bytes(), nil
}

// members is what is in a list or an object, to be followed by others; "" for nil.
func members(list json.RawMessage) string {
	if list == nil {
		return ""
	}
	return string(list[1:len(list)-1]) + ","
}

// ServeOpenRPC serves the document over HTTP, as rpc.discover returns it.
func (a *API) ServeOpenRPC(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(a.document)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(a.document) // a client that went away needs no answer
	}
}

// discovery are the methods that list the others.
func (a *API) discovery() []rpc.Method {
	return []rpc.Method{
		constant("rpc.discover", a.document),
		{Name: "rpc_modules", AnyParams: true, Inline: true, Handler: a.modules},
	}
}

// modules is rpc_modules: the namespaces of the transport on which it is called.
func (a *API) modules(ctx context.Context, _ *rpc.Params) (any, error) {
	served := a.deps.HTTPAPIs
	if r, ok := rpc.FromContext(ctx); ok && r.Transport == rpc.TransportWebSocket {
		served = a.deps.WebSocketAPIs
	}
	const version = "1.0"
	modules := map[string]string{"rpc": version}
	for _, name := range served {
		switch name {
		case "eth", "net", "web3":
			modules[name] = version
		case "debug":
			if a.cfg.Debug.Enabled {
				modules[name] = version
			}
		case "txpool":
			if a.offersPool() {
				modules[name] = version
			}
		case "relay":
			if a.deps.Manager {
				modules[name] = version
			}
		case "admin":
			if !a.deps.NoAdmin {
				modules[name] = version
			}
		}
	}
	return modules, nil
}
