package rpc

import (
	"strings"
	"testing"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/google/go-cmp/cmp"

	"lockstep/internal/envx"
	"lockstep/internal/must"
	"lockstep/internal/relay/apikey"
)

func load(environ map[string]string) (Config, error) {
	return env.ParseAsWithOptions[Config](env.Options{Environment: environ})
}

func TestConfigDefaults(t *testing.T) {
	c := must.Get(load(nil))(t)
	if err := c.Validate(); err != nil {
		t.Errorf("the defaults are not valid: %v", err)
	}
	want := testConfig()
	want.HTTP.DrainTimeout, want.WebSocket.WriteTimeout = envx.Millis(20*time.Second), envx.Millis(10*time.Second)
	want.WebSocket.InactivityTTL, want.WebSocket.PingInterval = envx.Millis(5*time.Minute), envx.Millis(100*time.Second)
	if _, err := load(map[string]string{"RELAY_PROFILE": "other"}); err == nil {
		t.Error("an unknown profile was accepted")
	}
	if diff := cmp.Diff(want, c, cmp.AllowUnexported(apikey.File{})); diff != "" {
		t.Errorf("defaults differ from what the tests use: (-want +got)\n%s", diff)
	}
}

func TestConfigValidate(t *testing.T) {
	for _, tt := range []struct {
		want  string
		spoil func(*Config)
	}{
		{"RELAY_PROFILE", func(c *Config) { c.Profile = "" }},
		{"ON_VALID_JSON_RPC_HTTP_RESPONSE_STATUS_CODE", func(c *Config) { c.ValidCallStatus = 204 }},
		{"WS_INPUT_SIZE_LIMIT must be -1 or a positive number.", func(c *Config) { c.WebSocket.InputSizeLimit = 0 }},
		{"LIMIT_DURATION", func(c *Config) { c.RateLimit.Disabled, c.RateLimit.Window = false, 0 }},
	} {
		c := testConfig()
		tt.spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v", tt.want, err)
		}
	}
	bad := testConfig()
	bad.Profile, bad.Batch.MaxSize = "", -1
	if err := bad.Validate(); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("want both mistakes, got %v", err)
	}
	r, _ := NewRegistry()
	if _, err := NewDispatcher(bad, r, Options{Metrics: NewMetrics()}); err == nil {
		t.Error("NewDispatcher took an invalid configuration")
	}
}
