package access

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/clientip"
	"lockstep/internal/ledger"
	"lockstep/internal/must"
)

func open(t *testing.T) *ledger.DB {
	t.Helper()
	db := must.Get(ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db")))(t)
	t.Cleanup(func() { db.Close() })
	must.Do(t, db.Migrate(t.Context(), Schema))
	return db
}

func TestKeysHaveRoleAndTenant(t *testing.T) {
	db := open(t)
	k := New(db, "", "")
	if open, err := k.Open(t.Context()); err != nil || !open {
		t.Fatalf("open %v, %v", open, err)
	}
	if _, _, err := k.Create(t.Context(), "acme", RoleSend, ""); !errors.Is(err, ErrFirst) {
		t.Fatalf("the first key is no administrator's: %v", err)
	}
	admin, adminToken := must.Get2(k.Create(t.Context(), "", RoleAdmin, "me"))(t)
	if open, err := k.Open(t.Context()); err != nil || open {
		t.Errorf("open with a key: %v, %v", open, err)
	}
	_, token := must.Get2(k.Create(t.Context(), "acme", RoleSend, "shop"))(t)
	who, _, err := k.bearer(t.Context(), token.Reveal())
	if err != nil || who.Tenant != "acme" || who.Role != RoleSend {
		t.Errorf("caller %+v, %v", who, err)
	}
	for _, bad := range []string{"", "lsk_", token.Reveal()[:20], token.Reveal() + "x", adminToken.Reveal()[4:], "lsk_" + strings.Repeat("x", 1000)} {
		if _, _, err := k.bearer(t.Context(), bad); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	must.Do(t, k.Revoke(t.Context(), admin.ID))
	if _, _, err := k.bearer(t.Context(), adminToken.Reveal()); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("a revoked key: %v", err)
	}
	if err := k.Revoke(t.Context(), admin.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("revoked twice: %v", err)
	}
	list, err := k.List(t.Context())
	if err != nil || len(list) != 2 || list[0].Revoked == 0 || list[1].LastUsed == 0 {
		t.Errorf("list %+v, %v", list, err)
	}
	for _, shown := range []string{fmt.Sprintf("%+v", list), fmt.Sprintf("%v %#v", token, token)} {
		if strings.Contains(shown, token.Reveal()[4:]) {
			t.Error("a key is shown")
		}
	}
	// The ledger has no token in it.
	must.Do(t, db.Read(t.Context(), func(tx *ledger.Tx) error {
		return tx.Query(t.Context(), "SELECT id, tenant, hash, role, label FROM api_keys", nil, func(row ledger.Row) error {
			var id, tenant, hash, role, label string
			err := row.Scan(&id, &tenant, &hash, &role, &label)
			if strings.Contains(id+tenant+hash+role+label, token.Reveal()[4:]) {
				t.Error("the ledger holds a key")
			}
			return err
		})
	}))
	for _, bad := range []struct {
		tenant string
		role   Role
	}{{"a b", RoleRead}, {strings.Repeat("x", 65), RoleRead}, {"", "root"}, {"", ""}} {
		if _, _, err := k.Create(t.Context(), bad.tenant, bad.role, ""); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

func TestRoles(t *testing.T) {
	for _, test := range []struct {
		has, wants Role
		want       bool
	}{
		{RoleAdmin, RoleRead, true},
		{RoleAdmin, RoleAdmin, true},
		{RoleSend, RoleRead, true},
		{RoleSend, RoleAdmin, false},
		{RoleRead, RoleSend, false},
		{"", RoleRead, false},
		{"", "", false},
		{"root", RoleRead, false},
	} {
		if got := test.has.Includes(test.wants); got != test.want {
			t.Errorf("%q includes %q: %v", test.has, test.wants, got)
		}
	}
}

func TestBasic(t *testing.T) {
	db := open(t)
	k := New(db, "core", "sesame")
	if open, err := k.Open(t.Context()); err != nil || open {
		t.Errorf("open with a password: %v, %v", open, err)
	}
	if who, err := k.Basic("core", "sesame"); err != nil || who.Role != RoleSend {
		t.Errorf("caller %+v, %v", who, err)
	}
	for _, bad := range [][2]string{{"core", ""}, {"", "sesame"}, {"core", "sesam"}, {"cor", "sesame"}, {"", ""}} {
		if _, err := k.Basic(bad[0], bad[1]); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := New(db, "", "").Basic("", ""); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("without a password: %v", err)
	}
}

// A key that another process revoked is refused when it is no longer remembered, and not
// looked up again before.
func TestRevocationByAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := open(t)
		here, there := New(db, "", ""), New(db, "", "")
		key, token := must.Get2(here.Create(t.Context(), "", RoleAdmin, ""))(t)
		if _, _, err := there.bearer(t.Context(), token.Reveal()); err != nil {
			t.Fatal(err)
		}
		must.Do(t, here.Revoke(t.Context(), key.ID))
		if _, _, err := there.bearer(t.Context(), token.Reveal()); err != nil {
			t.Errorf("not remembered: %v", err)
		}
		<-time.After(remembered + time.Second)
		if _, _, err := there.bearer(t.Context(), token.Reveal()); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("after %s: %v", remembered, err)
		}
		must.Do(t, db.Close())
		<-time.After(remembered + time.Second)
		if _, _, err := there.bearer(t.Context(), token.Reveal()); err == nil || errors.Is(err, ErrUnauthorized) {
			t.Errorf("a ledger that does not answer says of a key: %v", err)
		}
	})
}

// A key that leaked is of no use elsewhere: where a request comes from is judged as limits per address judge it.
func TestNetworks(t *testing.T) {
	k := New(open(t), "", "")
	if _, _, err := k.Create(t.Context(), "", RoleAdmin, "ops"); err != nil {
		t.Fatal(err)
	}
	trusted := must.Get(clientip.Read([]string{"10.0.0.1"}))(t)
	k.Proxies = trusted
	made, token, err := k.Create(t.Context(), "acme", RoleSend, "", "203.0.113.9/24", "2001:db8::7")
	if err != nil || fmt.Sprint(made.Networks) != "[203.0.113.0/24 2001:db8::7/128]" {
		t.Fatalf("%v, %v", made.Networks, err)
	}
	list, err := k.List(t.Context())
	if err != nil || fmt.Sprint(list[0].Networks, list[1].Networks) != "[] [203.0.113.0/24 2001:db8::7/128]" {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, test := range []struct {
		name, remote, forwarded string
		want                    error
	}{
		{"inside", "203.0.113.77:1", "", nil},
		{"IPv6", "[2001:db8::7]:1", "", nil},
		{"mapped", "[::ffff:203.0.113.77]:1", "", nil},
		{"outside", "198.51.100.1:1", "", ErrAddress},
		{"the proxy itself", "10.0.0.1:1", "", ErrAddress},
		{"behind the proxy", "10.0.0.1:1", "203.0.113.77", nil},
		{"outside, behind the proxy", "10.0.0.1:1", "198.51.100.1", ErrAddress},
		{"forged before the proxy", "10.0.0.1:1", "203.0.113.77, 198.51.100.1", ErrAddress},
		{"forged by a stranger", "198.51.100.1:1", "203.0.113.77", ErrAddress},
		{"no address", "pipe", "", ErrAddress},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.RemoteAddr = test.remote
		r.Header.Set("Authorization", "Bearer "+token.Reveal())
		if test.forwarded != "" {
			r.Header.Set("X-Forwarded-For", test.forwarded)
		}
		if who, err := k.Who(r); !errors.Is(err, test.want) || (err == nil) != (who.Role == RoleSend) || errors.Is(err, ErrUnauthorized) {
			t.Errorf("%s: %+v, %v", test.name, who, err)
		}
	}
	for _, bad := range [][]string{{"anywhere"}, {"203.0.113.0/33"}, {""}, make([]string, 101)} {
		if _, _, err := k.Create(t.Context(), "acme", RoleSend, "", bad...); !errors.Is(err, ErrNetworks) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A reader whose key is revoked gets no further event.
func TestAStreamEndsWithItsKey(t *testing.T) {
	k := New(open(t), "", "")
	if _, _, err := k.Create(t.Context(), "", RoleAdmin, "me"); err != nil {
		t.Fatal(err)
	}
	key, token := must.Get2(k.Create(t.Context(), "", RoleRead, "reader"))(t)
	events := make(chan string)
	ended := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := k.Who(r)
		if err != nil {
			t.Error(err)
		}
		ended <- Stream(k.With(r, who), w, 0, func(ctx context.Context, after int64) (string, int64, error) {
			select {
			case text := <-events:
				return text, after + 1, nil
			case <-ctx.Done():
				return "", after, ctx.Err()
			}
		})
	}))
	t.Cleanup(server.Close)
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil))(t)
	request.Header.Set("Authorization", "Bearer "+token.Reveal())
	response := must.Get(http.DefaultClient.Do(request))(t)
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	events <- "data: before\n\n"
	for lines.Scan() && lines.Text() != "data: before" {
	}
	must.Do(t, k.Revoke(t.Context(), key.ID))
	events <- "data: after\n\n"
	for lines.Scan() {
		if strings.Contains(lines.Text(), "after") {
			t.Error("an event came after the key was revoked")
		}
	}
	if err := <-ended; err != nil || lines.Err() != nil {
		t.Errorf("%v, %v", err, lines.Err())
	}
}
