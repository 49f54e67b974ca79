package ethapi

import (
	"errors"
	"fmt"

	"lockstep/internal/envx"
)

// SubscriptionConfig holds the settings of live subscriptions.
type SubscriptionConfig struct {
	// Offer eth_subscribe and eth_unsubscribe over WebSocket.
	Enabled bool `env:"SUBSCRIPTIONS_ENABLED" envDefault:"true"`
	// Maximum number of subscriptions of one connection.
	Limit int `env:"WS_SUBSCRIPTION_LIMIT" envDefault:"10"`
	// Offer subscriptions to new blocks.
	NewHeads bool `env:"WS_NEW_HEADS_ENABLED" envDefault:"true"`
	// How often the mirror node is asked for new blocks, at least, while anybody wants to know; all subscriptions together cost one such question. While a block is due it is asked up to eight times as often. Milliseconds.
	PollingInterval envx.Millis `env:"WS_POLLING_INTERVAL" envDefault:"500"`
	// Subscribing on one connection again to the same events gives the same id again, and takes no further slot. Profile hiero only: Ethereum nodes give a new id each time.
	SameForSameEvent bool `env:"WS_SAME_SUB_FOR_SAME_EVENT" envDefault:"true"`
	// Allow several addresses in one subscription to logs. Profile hiero only: Ethereum nodes always do.
	MultipleAddresses bool `env:"WS_MULTIPLE_ADDRESSES_ENABLED" envDefault:"false"`
	// Maximum number of addresses of one subscription to logs.
	AddressLimit int `env:"WS_MULTIPLE_ADDRESSES_LIMIT" envDefault:"1000"`
}

// Validate returns everything that is wrong with the settings.
func (c SubscriptionConfig) Validate() error {
	var errs []error
	if c.Limit < 1 {
		errs = append(errs, fmt.Errorf("WS_SUBSCRIPTION_LIMIT: must be at least 1, is %d", c.Limit))
	}
	if c.AddressLimit < 1 {
		errs = append(errs, fmt.Errorf("WS_MULTIPLE_ADDRESSES_LIMIT: must be at least 1, is %d", c.AddressLimit))
	}
	if c.PollingInterval <= 0 {
		errs = append(errs, errors.New("WS_POLLING_INTERVAL: must be positive"))
	}
	return errors.Join(errs...)
}
