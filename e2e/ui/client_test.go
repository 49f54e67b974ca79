package ui_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
)

// shop is somebody's page with the TypeScript client in it.
const shop = `<!doctype html><title>Shop</title><body><p id=fate>waiting</p><script type=module>
import { TxManager, executed } from '/lockstep-txm/index.js';
const txm = new TxManager({ url: location.origin });
const payment = { chain: 298, to: '0x05FbA803Be258049A27B820088bab1cAD2058871', value: 10n ** 18n };
const tx = await txm.send(payment, { idempotencyKey: 'order-17', wait: 'mined' });
const again = await txm.send(payment, { idempotencyKey: 'order-17' });
document.getElementById('fate').textContent = (executed(tx) ? 'paid by ' : 'not paid ') + tx.hash + (again.id === tx.id ? ', once' : ', twice');
</script>`

// TestTypeScriptInAPage has a page pay by the TypeScript client. The page's own server, which alone has a key, hands the calls on.
func TestTypeScriptInAPage(t *testing.T) {
	var ready struct{ TX string }
	harness.Command{
		Name: "dev", Settings: harness.Patient(),
		Args: []string{"dev", "--json", "--tx", "--tx-address", "127.0.0.1:0", "--http", "127.0.0.1:0", "--ws", "127.0.0.1:0", "--mirror", "127.0.0.1:0", "--consensus", "127.0.0.1:0"},
	}.Start(t).ReadReady(&ready)
	var admin, sender struct{ Token string }
	api(t, "POST", ready.TX+"/v1/api-keys", `{"role":"admin"}`, &admin)
	api(t, "POST", ready.TX+"/v1/api-keys", `{"role":"send"}`, &sender, "Authorization", "Bearer "+admin.Token)
	manager := must.Get(url.Parse(ready.TX))(t)

	mux := http.NewServeMux()
	mux.Handle("/lockstep-txm/", http.StripPrefix("/lockstep-txm/", http.FileServer(http.Dir(compiled(t)))))
	mux.Handle("/v1/", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(manager)
		r.Out.Header.Set("Authorization", "Bearer "+sender.Token)
	}})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, shop) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)

	b := open(t, server.URL+"/")
	b.do("the page", chromedp.Navigate(b.base))
	b.until("paid by 0x", ", once")
}

// compiled returns a folder with the client as browsers load it.
func compiled(t *testing.T) string {
	t.Helper()
	modules := must.Get(filepath.Abs("../node_modules"))(t)
	source := t.TempDir()
	must.Do(t, os.CopyFS(source, os.DirFS("../../clients/typescript")))
	_ = os.RemoveAll(filepath.Join(source, "node_modules")) // a developer's, which need not be ours
	must.Do(t, os.Symlink(modules, filepath.Join(source, "node_modules")))
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join(modules, "typescript", "bin", "tsc"))
	cmd.Dir = source
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(source, "dist")
}
