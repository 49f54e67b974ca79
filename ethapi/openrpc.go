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

// OpenRPC returns the OpenRPC document that describes the methods, for a version of
// this relay. It describes them all, those included that the settings switch off.
func OpenRPC(version string) (json.RawMessage, error) {
	text := strings.Replace(openRPC, `"@version@"`, string(quoted(version)), 1)
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(text)); err != nil {
		return nil, err
	}
	return compact.Bytes(), nil
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

// discovery are the methods that tell what there is.
func (a *API) discovery() []rpc.Method {
	return []rpc.Method{
		constant("rpc.discover", a.document),
		{Name: "rpc_modules", AnyParams: true, Inline: true, Handler: a.modules},
	}
}

// modules is rpc_modules: the namespaces that are served where it is asked.
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
		case "admin":
			if !a.deps.NoAdmin {
				modules[name] = version
			}
		}
	}
	return modules, nil
}
