package telemetry

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"lockstep/internal/must"
)

func usual() Config {
	return Config{Endpoint: "http://127.0.0.1:4318", Protocol: protocol, Service: "lockstep", Sampler: "parentbased_always_on", SamplerArg: "1"}
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(*Config)
		want   string // part of the error; empty: none
	}{
		{"as it is", func(*Config) {}, ""},
		{"no URL", func(c *Config) { c.Endpoint = "localhost:4318" }, "OTEL_EXPORTER_OTLP_ENDPOINT: want the URL"},
		{"grpc", func(c *Config) { c.Protocol = "grpc" }, "want http/protobuf"},
		{"unknown sampler", func(c *Config) { c.Sampler = "sometimes" }, "want always_on"},
		{"a share", func(c *Config) { c.Sampler, c.SamplerArg = "traceidratio", "0.25" }, ""},
		{"a share below the parent", func(c *Config) { c.Sampler, c.SamplerArg = "parentbased_traceidratio", "0" }, ""},
		{"too large a share", func(c *Config) { c.Sampler, c.SamplerArg = "traceidratio", "25" }, "from 0 to 1"},
		{"no share", func(c *Config) { c.Sampler, c.SamplerArg = "traceidratio", "NaN" }, "from 0 to 1"},
		{"headers", func(c *Config) { c.Headers = "authorization=Bearer%20x, other = y," }, ""},
		{"broken headers", func(c *Config) { c.Headers = "hunter2" }, "OTEL_EXPORTER_OTLP_HEADERS: want"},
		{"broken attributes", func(c *Config) { c.Attributes = "=x" }, "OTEL_RESOURCE_ATTRIBUTES"},
		{"nothing counts while it is off", func(c *Config) { c.Endpoint, c.Protocol, c.Sampler = "", "grpc", "xray" }, ""},
		{"nor when it is switched off", func(c *Config) { c.Disabled, c.Protocol = true, "grpc" }, ""},
	} {
		cfg := usual()
		c.change(&cfg)
		switch err := cfg.Validate(); {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.what, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error %v, want %q", c.what, err, c.want)
		case err != nil && strings.Contains(err.Error(), "hunter2"):
			t.Errorf("%s: the error shows the secret: %v", c.what, err)
		}
	}
}

// While tracing is off, and in a trace that is not recorded, nothing is allocated.
func TestFreeWhenOff(t *testing.T) {
	never := usual()
	never.Sampler = "always_off"
	for what, tracer := range map[string]*Tracer{"off": Disabled(), "not recorded": open(t, never)} {
		ctx, root := tracer.Begin(t.Context(), "request", "", "")
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h"})
		allocated := testing.AllocsPerRun(100, func() {
			ctx, span := StartCall(ctx, "call")
			span.Text("a", "b")
			span.Number("c", 1)
			Observe(ctx, h, 1)
			span.End(context.Canceled)
		})
		if allocated > 0 || root.Recorded() {
			t.Errorf("%s: %v allocations, recorded %v", what, allocated, root.Recorded())
		}
	}
}

func open(t *testing.T, cfg Config) *Tracer {
	t.Helper()
	tracer := must.Get(New(cfg, "test", slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(func() {
		if err := tracer.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return tracer
}

// A parent that cannot be read counts as none; what is not recorded is told to the next service, too.
func TestParents(t *testing.T) {
	const id = "0af7651916cd43dd8448eb211c80319c"
	tracer := open(t, usual())
	for parent, same := range map[string]bool{
		"":                                    false,
		"00-" + id + "-b7ad6b7169203331-00":   true,
		"00-" + id + "-b7ad6b7169203331-00-x": false,
		"garbage":                             false,
		strings.Repeat("0", 10_000):           false,
	} {
		ctx, span := tracer.Begin(t.Context(), "request", parent, "a=b")
		h := http.Header{}
		Inject(ctx, h)
		if got := strings.Contains(h.Get("Traceparent"), id); got != same || same == span.Recorded() {
			t.Errorf("parent %.60q: header %q, recorded %v", parent, h.Get("Traceparent"), span.Recorded())
		}
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func BenchmarkOff(b *testing.B) {
	ctx := b.Context()
	for b.Loop() {
		_, span := StartCall(ctx, "call")
		span.End(nil)
	}
}
