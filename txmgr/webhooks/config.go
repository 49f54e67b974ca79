package webhooks

import (
	"errors"
	"fmt"

	"lockstep/internal/envx"
	"lockstep/internal/webhook"
)

// Config holds the settings of webhooks.
type Config struct {
	// Private networks and addresses that webhooks may reach, such as 10.0.0.0/8; * for all. Public ones are always allowed.
	Networks envx.Strings `env:"TXM_WEBHOOK_NETWORKS"`
	// How long one attempt to deliver a webhook may take.
	Timeout envx.Millis `env:"TXM_WEBHOOK_TIMEOUT_MS" envDefault:"15000" min:"1ms"`
	// How long a delivery is tried again before it becomes a dead letter.
	RetryFor envx.Millis `env:"TXM_WEBHOOK_RETRY_FOR" envDefault:"24h" min:"1ms"`
	// Deliveries that are sent at once.
	Workers int `env:"TXM_WEBHOOK_WORKERS" envDefault:"16" min:"1" max:"1000"`
	// Webhooks that one tenant may have.
	Limit int `env:"TXM_WEBHOOK_LIMIT" envDefault:"50" min:"1"`
	// How long deliveries are kept after they were delivered or given up.
	Retention envx.Millis `env:"TXM_WEBHOOK_RETENTION" envDefault:"168h" min:"1ms"`
}

// Validate checks the settings.
func (c Config) Validate() error {
	errs := []error{envx.Check(c)}
	if _, err := webhook.NewGuard(c.Networks); err != nil {
		errs = append(errs, fmt.Errorf("TXM_WEBHOOK_NETWORKS: %w", err))
	}
	return errors.Join(errs...)
}
