package policy

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/ledger"
	"lockstep/internal/must"
	"lockstep/txmgr"
	"lockstep/txmgr/sqlstore"
)

func guard(t *testing.T) *Guard {
	t.Helper()
	db := must.Get(ledger.Open(t.Context(), "memory:"))(t)
	t.Cleanup(func() { db.Close() })
	must.Do(t, db.Migrate(t.Context(), sqlstore.Schema))
	return New(db)
}

const (
	shop  = "0x05FbA803Be258049A27B820088bab1cAD2058871"
	other = "0x67D8d32E9Bf1a9968a5ff53B87d777Aa8EBBEe69"
)

func intent(tenant, to, data string, value int64) *txmgr.Intent {
	return &txmgr.Intent{Request: txmgr.Request{Tenant: tenant, Chain: "31337", To: to, Data: []byte(data), Value: big.NewInt(value), Actor: "ann"}}
}

func cost(gas uint64, price int64) txmgr.Cost {
	return txmgr.Cost{Gas: gas, Price: big.NewInt(price), Total: new(big.Int).Mul(big.NewInt(price), new(big.Int).SetUint64(gas))}
}

func TestRules(t *testing.T) {
	for name, test := range map[string]struct {
		tenant string // of the policy
		rules  Rules
		intent *txmgr.Intent
		cost   txmgr.Cost
		want   string // part of the error; "" is allowed
	}{
		"nothing set":               {rules: Rules{}, intent: intent("t", shop, "xxxx", 1e15), cost: cost(1e6, 1e9)},
		"receiver allowed":          {rules: Rules{Receivers: []string{shop}}, intent: intent("t", shop, "", 1)},
		"receiver not allowed":      {rules: Rules{Receivers: []string{shop}}, intent: intent("t", other, "", 1), want: "receiver"},
		"deployment not allowed":    {rules: Rules{Receivers: []string{shop}}, intent: intent("t", "", "code", 0), want: "deployments"},
		"deployment allowed":        {rules: Rules{Receivers: []string{"create"}, Selectors: []string{"0x"}}, intent: intent("t", "", "code", 0)},
		"deployment by selectors":   {rules: Rules{Selectors: []string{"0x74657374"}}, intent: intent("t", "", "test", 0), want: "deployments"},
		"deployment is a selector":  {rules: Rules{Selectors: []string{"create"}, Receivers: []string{shop}}, intent: intent("t", "", "test", 0)},
		"function allowed":          {rules: Rules{Selectors: []string{"0x74657374"}}, intent: intent("t", shop, "test and more", 0)},
		"function not allowed":      {rules: Rules{Selectors: []string{"0x74657374"}}, intent: intent("t", shop, "tesu", 0), want: "function 0x74657375"},
		"short data":                {rules: Rules{Selectors: []string{"0x74657374"}}, intent: intent("t", shop, "te", 0), want: "function 0x7465"},
		"plain transfer":            {rules: Rules{Selectors: []string{"0x"}}, intent: intent("t", shop, "", 5)},
		"plain transfer not listed": {rules: Rules{Selectors: []string{"0x74657374"}}, intent: intent("t", shop, "", 5), want: "function 0x "},
		"value at the cap":          {rules: Rules{MaxValue: "5"}, intent: intent("t", shop, "", 5)},
		"value above the cap":       {rules: Rules{MaxValue: "5"}, intent: intent("t", shop, "", 6), want: "value"},
		"price above the cap":       {rules: Rules{MaxGasPrice: "9"}, intent: intent("t", shop, "", 0), cost: cost(1, 10), want: "price"},
		"gas above the cap":         {rules: Rules{MaxGas: 9}, intent: intent("t", shop, "", 0), cost: cost(10, 1), want: "gas of 10"},
		"another tenant's":          {tenant: "u", rules: Rules{MaxValue: "0"}, intent: intent("t", shop, "", 6)},
		"the tenant's":              {tenant: "t", rules: Rules{MaxValue: "0"}, intent: intent("t", shop, "", 6), want: "value"},
		"another chain's":           {rules: Rules{Chains: []string{"1"}, MaxValue: "0"}, intent: intent("t", shop, "", 6)},
	} {
		t.Run(name, func(t *testing.T) {
			g := guard(t)
			must.Get(g.Put(t.Context(), Policy{Tenant: test.tenant, Rules: test.rules}))(t)
			_, err := g.Allow(t.Context(), test.intent, test.cost)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (!errors.Is(err, txmgr.ErrPolicy) || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error %v, want %q", err, test.want)
			}
			top := *test.intent
			top.Origin = OriginTopUp
			if _, err := g.Allow(t.Context(), &top, test.cost); err != nil {
				t.Errorf("a top-up is refused: %v", err)
			}
		})
	}
}

func TestBudgetsAreHeldByTenantAndActor(t *testing.T) {
	g := guard(t)
	p, err := g.Put(t.Context(), Policy{Rules: Rules{TenantDailyGas: "1000", ActorDailyGas: "100"}})
	if err != nil {
		t.Fatal(err)
	}
	today := func() string { return time.Now().UTC().Format(time.DateOnly) }
	var day string
	var holds []txmgr.Hold
	for day != today() { // it may end meanwhile
		day = today()
		if holds, err = g.Allow(t.Context(), intent("t", shop, "", 1), cost(21, 2)); err != nil {
			t.Fatal(err)
		}
	}
	want := fmt.Sprintf("%s/tenant/t %s 42 1000|%s/actor/t/ann %s 42 100|", p.ID, day, p.ID, day)
	got := ""
	for _, h := range holds {
		got += fmt.Sprintf("%s %s %s %s|", h.Scope, h.Day, h.Amount, h.Limit)
	}
	if got != want {
		t.Errorf("holds %s, want %s", got, want)
	}
	must.Get(g.Put(t.Context(), Policy{ID: p.ID, Disabled: true, Rules: p.Rules}))(t)
	if holds, err := g.Allow(t.Context(), intent("t", shop, "", 1), cost(21, 2)); err != nil || len(holds) != 0 {
		t.Errorf("a policy that is off holds %v, %v", holds, err)
	}
	if err := g.Delete(t.Context(), p.ID); err != nil {
		t.Error(err)
	}
	if err := g.Delete(t.Context(), p.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	if _, err := g.Put(t.Context(), Policy{ID: "pol_none"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("changed what is not there: %v", err)
	}
}

func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := guard(t)
		must.Get(g.Put(t.Context(), Policy{Rules: Rules{TenantPerMinute: 3, ActorPerMinute: 2}}))(t)
		ask := func(tenant, actor string) error {
			i := intent(tenant, shop, "", 1)
			i.Actor = actor
			_, err := g.Allow(t.Context(), i, cost(1, 1))
			return err
		}
		var rate *RateError
		for i, step := range []struct {
			tenant, actor string
			wait          time.Duration
			scope         string
		}{
			{tenant: "t", actor: "ann"},
			{tenant: "t", actor: "ann"},
			{tenant: "t", actor: "ann", scope: "actor t/ann"},
			{tenant: "t", actor: "bob", scope: "tenant t"},
			{tenant: "u", actor: "ann"},
			{tenant: "t", actor: "bob", wait: 21 * time.Second},
			{tenant: "t", actor: "bob", scope: "tenant t"},
			{tenant: "t", actor: "ann", wait: time.Hour},
		} {
			<-time.After(step.wait)
			err := ask(step.tenant, step.actor)
			if step.scope == "" && err != nil || step.scope != "" && (!errors.As(err, &rate) || rate.Scope != step.scope || !errors.Is(err, txmgr.ErrPolicy)) {
				t.Errorf("step %d: %v, want %q", i, err, step.scope)
			}
		}
	})
}

// A ledger that does not answer allows nothing.
func TestUnknownPoliciesAllowNothing(t *testing.T) {
	g := guard(t)
	must.Do(t, g.db.Close())
	if _, err := g.Allow(t.Context(), intent("t", shop, "", 1), cost(1, 1)); !errors.Is(err, txmgr.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
}

func TestWhatIsNotAPolicy(t *testing.T) {
	g := guard(t)
	for name, rules := range map[string]Rules{
		"selector without 0x": {Selectors: []string{"74657374"}}, "selector of three bytes": {Selectors: []string{"0x746573"}}, "no receiver": {Receivers: []string{" "}},
		"negative value": {MaxValue: "-1"}, "hexadecimal": {MaxGasPrice: "0x1"}, "words": {TenantDailyGas: "much"}, "too long": {ActorDailyGas: strings.Repeat("9", 79)},
		"negative rate": {TenantPerMinute: -1}, "too many items": {Receivers: make([]string, maxItems+1)},
	} {
		if _, err := g.Put(t.Context(), Policy{Rules: rules}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
