package envx_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"lockstep/internal/envx"
	"lockstep/internal/must"
)

func TestMillis(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30000": 30 * time.Second, "0": 0, "60_000": time.Minute, "-1": -time.Millisecond, " 250 ": 250 * time.Millisecond, "1.5s": 1500 * time.Millisecond, "2m": 2 * time.Minute, "10us": 10 * time.Microsecond,
	} {
		var m, again envx.Millis
		if err := m.UnmarshalText([]byte(text)); err != nil || m.Duration() != want {
			t.Errorf("%q = %v, %v, want %v", text, m.Duration(), err, want)
		}
		printed, _ := m.MarshalText()
		if err := again.UnmarshalText(printed); err != nil || again != m {
			t.Errorf("%q prints as %q, which is %v, %v", text, printed, again, err)
		}
	}
	for _, bad := range []string{"", "abc", "1.5", "1x", "9223372036854775807"} {
		if err := new(envx.Millis).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestStrings(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, "a": {"a"}, " a , b,": {"a", "b"}, `["a","b, c"]`: {"a", "b, c"}, "[]": {}, "[429, 503]": {"429", "503"}, `["a",1.5,"2"]`: {"a", "1.5", "2"},
	} {
		var l envx.Strings
		if err := l.UnmarshalText([]byte(text)); err != nil || !slices.Equal(l, want) {
			t.Errorf("%q = %q, %v, want %q", text, l, err, want)
		}
	}
	for _, bad := range []string{"[", `["a"`, `[{"a":1}]`, "[[1]]", "[true]"} {
		if err := new(envx.Strings).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestChainID(t *testing.T) {
	for text, want := range map[string]string{"298": "0x12a", "0x12a": "0x12a", "0X127": "0x127"} {
		var c envx.ChainID
		if err := c.UnmarshalText([]byte(text)); err != nil || c.Hex() != want {
			t.Errorf("%q = %s, %v, want %s", text, c.Hex(), err, want)
		}
	}
	for _, bad := range []string{"", "0", "0x", "-1", "mainnet", "1e3"} {
		if err := new(envx.ChainID).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// Numbers and durations are held against the bounds of their tags, whatever struct they are in.
func TestCheck(t *testing.T) {
	type inner struct {
		Share float64 `env:"SHARE" min:"0" max:"1"`
		Free  int     `env:"FREE"`
	}
	type settings struct {
		Inner inner
		Wait  envx.Millis `env:"WAIT,file" min:"1ms" max:"1m"`
		Count uint64      `env:"COUNT" min:"1"`
	}
	good := settings{Inner: inner{Free: -1}, Wait: envx.Millis(time.Minute), Count: 1}
	must.Do(t, envx.Check(good))
	for want, bad := range map[string]settings{
		"SHARE: must be 0 to 1, is NaN":                                   {Inner: inner{Share: math.NaN()}, Wait: good.Wait, Count: 1},
		"SHARE: must be 0 to 1, is 2":                                     {Inner: inner{Share: 2}, Wait: good.Wait, Count: 1},
		"WAIT: must be 1ms to 1m, is 1m0.001s":                            {Wait: good.Wait + 1e6, Count: 1},
		"WAIT: must be 1ms to 1m, is 0s\nCOUNT: must be at least 1, is 0": {},
	} {
		if err := envx.Check(bad); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
