package txm_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"lockstep/e2e/harness"
	"lockstep/internal/ledger"
	"lockstep/internal/ledgertest"
	"lockstep/internal/must"
	"lockstep/internal/pgtest"
	"lockstep/internal/proctest"
)

// TestNoSecretInPostgres looks for the signer's key, the password of internal callers, the
// database's password and an API key's token in a dump of the database, in the log, in the metrics
// and in what the API answers to its operator, in every form that a program may write them in. The memory of a
// process that signs by itself holds its key; it is shown nowhere.
func TestNoSecretInPostgres(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	database := server.Database()
	password := "pass-" + hex.EncodeToString(topic()[:8])
	guarded := strings.Replace(database, "lockstep@", "lockstep:"+password+"@", 1)
	if guarded == database {
		t.Fatalf("%s has no user", database)
	}
	basic := "word-" + hex.EncodeToString(topic()[:8])
	chain := startAnvil(t)
	url := fmt.Sprintf("http://127.0.0.1:%d", proctest.FreePort(t))
	program := func(args ...string) *exec.Cmd {
		cmd := exec.Command(harness.Program(t), append([]string{"txm"}, args...)...)
		cmd.Dir = t.TempDir()
		cmd.Env = append(harness.Environment(), "DATABASE_URL="+guarded, "TXM_CHAINS=31337="+chain.url, "RELAYER_PRIVATE_KEYS="+devKeys[0],
			"INSTANCE_ID=one", "LOG_LEVEL=debug", "TXM_LOOPBACK_TOKEN=false", "TXM_ADDRESS="+strings.TrimPrefix(url, "http://"), "TXM_API_KEY=",
			"TXM_BASIC_USER=caller", "TXM_BASIC_PASSWORD="+basic)
		return cmd
	}
	made := must.Get(program("key", "--role", "admin").Output())(t)
	token := strings.TrimSpace(string(made))
	running := harness.Run(t, program())
	until(t, "the manager is ready", func() bool { return ask("GET", url+"/health/readiness", "", "", nil) == 200 })
	body := `{"chain":31337,"to":"` + counter + `","gas":60000,"simulate":"off"}`
	if status := ask("POST", url+"/v1/transactions", body, "k", nil); status != 401 {
		t.Errorf("without the key: %d", status)
	}
	c := newCaller(t, txmNode{Ledger: database, Chain: 31337, URLs: []string{chain.url}})
	c.n.Keys = devKeys[:1]
	c.many(3)
	c.settled()
	secrets := formsOf(t, "the signer's key", devKeys[0])
	secrets["the API key"], secrets["the API key without its beginning"] = token, token[4:]
	secrets["the database's password"], secrets["the callers' password"] = password, basic
	shown := map[string]string{"the dump of the database": server.Dump(database)}
	shown["the dump of the database, decoded"] = unhexed(shown["the dump of the database"])
	for _, path := range []string{
		"/metrics", "/v1/transactions", "/v1/signers", "/v1/pools", "/v1/api-keys", "/v1/policies", "/v1/webhooks", "/v1/kill-switch", "/v1/nonces/health", "/v1/fees?chain=31337",
		"/evm/nonce/health", "/health/readiness", "/openapi.json", "/v1/no-such-thing", "/v1/transactions/" + token, "/v1/transactions?cursor=0&status=confirmed",
	} {
		status, text := bearer(t, url+path, token)
		if status == 401 || status == 403 || text == "" {
			t.Errorf("%s is answered with %d to an operator", path, status)
		}
		shown[path] = strings.ReplaceAll(text, "/v1/transactions/"+token, "") // the caller's own words
	}
	if !strings.Contains(shown["the dump of the database"], "INSERT INTO public.attempts") || !strings.Contains(shown["/metrics"], "txm_intents_total") ||
		!strings.Contains(shown["/v1/transactions"], "confirmed") {
		t.Error("what is to be searched is not there")
	}
	for where, text := range shown {
		search(t, secrets, where, text)
	}
	rows := 0
	for _, table := range c.tables() {
		for _, text := range ledgertest.List[string](t, c.db, "SELECT CAST(t AS TEXT) FROM "+ledger.Quoted(table)+" t") {
			rows++
			search(t, secrets, "the table "+table, text)
		}
	}
	if rows < 30 {
		t.Errorf("%d rows were looked at", rows)
	}
	log := running.Log.String()
	if !strings.Contains(log, "is ready") {
		t.Fatal("the log is not there")
	}
	search(t, secrets, "the log", log)
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap?debug=1", "/debug/pprof/goroutine?debug=2", "/debug/vars"} {
		if status := ask("GET", url+path, "", "", nil); status != 401 && status != 404 {
			t.Errorf("%s is answered with %d: the manager shows nothing of its memory", path, status)
		}
	}
}

// formsOf returns the forms in which a program may write a key, by their names.
func formsOf(t *testing.T, what, digits string) map[string]string {
	t.Helper()
	raw, err := hex.DecodeString(strings.TrimPrefix(digits, "0x"))
	if err != nil || len(raw) != 32 {
		t.Fatalf("%s is not a key: %v", what, err)
	}
	forms := map[string]string{
		what + " in hexadecimal": hex.EncodeToString(raw), what + " in decimal": new(big.Int).SetBytes(raw).String(), what + " as bytes": string(raw),
		what + " as a list of numbers": strings.Trim(fmt.Sprintf("%d", raw), "[]"), what + " as a list in JSON": strings.ReplaceAll(strings.Trim(fmt.Sprintf("%d", raw), "[]"), " ", ","),
	}
	// Within a longer text a key begins at any of the three places of a group of base64. What is
	// next to it changes a digit or two at each end.
	for shift := range 3 {
		for name, encoding := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64 of URLs": base64.RawURLEncoding} {
			text := encoding.EncodeToString(append(make([]byte, shift), raw...))
			forms[fmt.Sprintf("%s in %s from place %d", what, name, shift)] = text[2*shift-shift/2 : len(text)-2]
		}
	}
	return forms
}

// search fails the test if a text has one of the secrets, in large or in small letters.
func search(t *testing.T, secrets map[string]string, where, text string) {
	t.Helper()
	lower := strings.ToLower(text)
	for what, secret := range secrets {
		if strings.Contains(text, secret) || strings.Contains(lower, strings.ToLower(secret)) {
			t.Errorf("%s is in %s", what, where)
		}
	}
}

// bearer gets a page with an API key.
func bearer(t *testing.T, url, token string) (int, string) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response := must.Get(client.Do(request))(t)
	defer func() { _ = response.Body.Close() }()
	text := must.Get(io.ReadAll(response.Body))(t)
	return response.StatusCode, string(text)
}

// unhexed returns the bytes of every long run of hexadecimal digits in a text.
func unhexed(text string) string {
	var out []byte
	for _, run := range regexp.MustCompile(`[0-9a-fA-F]{16,}`).FindAllString(text, -1) {
		part, _ := hex.DecodeString(run[:len(run)&^1])
		out = append(out, part...)
	}
	return string(out)
}

// tables are all of the database's.
func (c *caller) tables() (list []string) {
	c.t.Helper()
	list = ledgertest.List[string](c.t, c.db, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'")
	if len(list) < 15 {
		c.t.Fatalf("tables %v", list)
	}
	return list
}
