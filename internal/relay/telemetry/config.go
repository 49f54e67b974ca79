package telemetry

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"lockstep/internal/secret"
)

// Config holds the settings of tracing. Their names are those of the OpenTelemetry
// specification.
type Config struct {
	// Collector that traces are sent to (OTLP over HTTP), such as http://localhost:4318; spans go to its path /v1/traces. Empty: no traces.
	Endpoint string `env:"OTEL_EXPORTER_OTLP_ENDPOINT"`
	// Send no traces, whatever OTEL_EXPORTER_OTLP_ENDPOINT says.
	Disabled bool `env:"OTEL_SDK_DISABLED" envDefault:"false"`
	// How traces are sent: http/protobuf is the only way.
	Protocol string `env:"OTEL_EXPORTER_OTLP_PROTOCOL" envDefault:"http/protobuf"`
	// Header fields for the collector, such as a token: name=value,name=value, with values as in URLs.
	Headers secret.String `env:"OTEL_EXPORTER_OTLP_HEADERS"`
	// Name of this service in traces.
	Service string `env:"OTEL_SERVICE_NAME" envDefault:"lockstep"`
	// What else is said of this process in traces: name=value,name=value, with values as in URLs.
	Attributes string `env:"OTEL_RESOURCE_ATTRIBUTES"`
	// Which traces are recorded: always_on, always_off, traceidratio, and each with parentbased_ before it, which first does what the traceparent of a trusted proxy says.
	Sampler string `env:"OTEL_TRACES_SAMPLER" envDefault:"parentbased_always_on"`
	// Share of the traces that traceidratio records, from 0 to 1.
	SamplerArg string `env:"OTEL_TRACES_SAMPLER_ARG" envDefault:"1"`
}

// Enabled tells whether traces are sent.
func (c Config) Enabled() bool { return c.Endpoint != "" && !c.Disabled }

// Validate returns everything that is wrong with the settings. The names of OpenTelemetry may be
// in the environment for other programs, so only what is used is judged.
func (c Config) Validate() error {
	if !c.Enabled() {
		return nil
	}
	var errs []error
	if _, err := c.url(); err != nil {
		errs = append(errs, err)
	}
	if c.Protocol != protocol {
		errs = append(errs, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: want %s, which collectors serve on port 4318", c.Protocol, protocol))
	}
	if _, err := c.sampler(); err != nil {
		errs = append(errs, err)
	}
	if _, err := pairs(c.Headers.Reveal()); err != nil { // whose text is a secret
		errs = append(errs, errors.New("OTEL_EXPORTER_OTLP_HEADERS: want name=value,name=value"))
	}
	if _, err := pairs(c.Attributes); err != nil {
		errs = append(errs, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err))
	}
	return errors.Join(errs...)
}

const protocol = "http/protobuf"

// url is where spans are sent to.
func (c Config) url() (string, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", errors.New("OTEL_EXPORTER_OTLP_ENDPOINT: want the URL of a collector, such as http://localhost:4318")
	}
	return u.JoinPath("v1/traces").String(), nil
}

// sampler decides which traces are recorded.
func (c Config) sampler() (sdk.Sampler, error) {
	name, parent := strings.CutPrefix(c.Sampler, "parentbased_")
	var s sdk.Sampler
	switch name {
	case "always_on":
		s = sdk.AlwaysSample()
	case "always_off":
		s = sdk.NeverSample()
	case "traceidratio":
		share, err := strconv.ParseFloat(c.SamplerArg, 64)
		if err != nil || !(share >= 0 && share <= 1) {
			return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %q: want a number from 0 to 1, such as 0.01", c.SamplerArg)
		}
		s = sdk.TraceIDRatioBased(share)
	default:
		return nil, fmt.Errorf("OTEL_TRACES_SAMPLER is %q: want always_on, always_off or traceidratio, perhaps with parentbased_ before it", c.Sampler)
	}
	if parent {
		s = sdk.ParentBased(s)
	}
	return s, nil
}

// pairs reads name=value,name=value.
func pairs(list string) (map[string]string, error) {
	found := map[string]string{}
	for part := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil {
			return nil, fmt.Errorf("%q: want name=value,name=value", list)
		}
		found[name] = value
	}
	return found, nil
}
