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
	Timeout envx.Millis `env:"TXM_WEBHOOK_TIMEOUT_MS" envDefault:"15000"`
	// How long a delivery is tried again before it becomes a dead letter.
	RetryFor envx.Millis `env:"TXM_WEBHOOK_RETRY_FOR" envDefault:"24h"`
	// Deliveries that are sent at once.
	Workers int `env:"TXM_WEBHOOK_WORKERS" envDefault:"16"`
	// Webhooks that one tenant may have.
	Limit int `env:"TXM_WEBHOOK_LIMIT" envDefault:"50"`
	// How long deliveries are kept after they were delivered or given up.
	Retention envx.Millis `env:"TXM_WEBHOOK_RETENTION" envDefault:"168h"`
}

// Validate checks the settings.
func (c Config) Validate() error {
	var errs []error
	if _, err := webhook.NewGuard(c.Networks); err != nil {
		errs = append(errs, fmt.Errorf("TXM_WEBHOOK_NETWORKS: %w", err))
	}
	if c.Timeout <= 0 || c.RetryFor <= 0 || c.Retention <= 0 {
		errs = append(errs, errors.New("TXM_WEBHOOK_TIMEOUT_MS, TXM_WEBHOOK_RETRY_FOR and TXM_WEBHOOK_RETENTION: want more than 0"))
	}
	if c.Workers < 1 || c.Workers > 1000 || c.Limit < 1 {
		errs = append(errs, errors.New("TXM_WEBHOOK_WORKERS: want 1 to 1000; TXM_WEBHOOK_LIMIT: want at least 1"))
	}
	return errors.Join(errs...)
}
