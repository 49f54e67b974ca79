package rpc

import (
	"slices"
	"testing"

	"lockstep/internal/must"
)

func TestMethodLimits(t *testing.T) {
	var c RateLimitConfig
	c.Tier1, c.Tier2, c.Default = 11, 22, 44
	must.Do(t, c.Methods.UnmarshalText([]byte(" eth_getLogs=50, debug_*=5,debug_traceTransaction = 0,debug_trace*=7")))
	for method, want := range map[string]int{
		"eth_getLogs": 50, "debug_getRawBlock": 5, "debug_traceTransaction": 0, "debug_traceCall": 7, // of the longest pattern
		"eth_getLogsX": 22, "eth_call": 22, "debu_": 22,
	} {
		if got := c.MethodLimit(method, 2); got != want {
			t.Errorf("%s: %d, want %d", method, got, want)
		}
	}
	const text = "debug_*=5,debug_trace*=7,debug_traceTransaction=0,eth_getLogs=50"
	if got := c.Methods.String(); got != text {
		t.Errorf("written as %s", got)
	}
	var again, list MethodLimits
	if err := again.UnmarshalText([]byte(text)); err != nil || again.String() != text {
		t.Errorf("read again: %s, %v", again, err)
	}
	if err := list.UnmarshalText([]byte(`["eth_getLogs=50"]`)); err != nil || list.String() != "eth_getLogs=50" {
		t.Errorf("as JSON: %s, %v", list, err)
	}
	if err := list.UnmarshalText(nil); err != nil || list != nil {
		t.Errorf("nothing is read as %s, %v", list, err)
	}
	for _, wrong := range []string{"eth_getLogs", "eth_getLogs=", "=5", "eth_getLogs=many", "eth_getLogs=-1", "eth_*Logs=5", "a.b=1", "eth_call=1,eth_call=2", "[5"} {
		if err := new(MethodLimits).UnmarshalText([]byte(wrong)); err == nil {
			t.Errorf("%q was accepted", wrong)
		}
	}
}

func TestIdleLimits(t *testing.T) {
	d := testDispatcher(t, testConfig(), Options{})
	given := MethodLimits{"eth_chainId": 1, "eth_*": 1, "eth_chanId": 1, "dbug_*": 1}
	if idle := d.IdleLimits(given); !slices.Equal(idle, []string{"dbug_*", "eth_chanId"}) || len(given) != 4 {
		t.Errorf("idle %q of %v", idle, given)
	}
}
