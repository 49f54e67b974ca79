package mirror

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"lockstep/internal/hedera"
)

// Fees are the prices of gas in tinybar, by kind of transaction.
type Fees struct {
	EthereumTransaction hedera.Tinybar
	ContractCall        hedera.Tinybar
	ContractCreate      hedera.Tinybar
	At                  hedera.Timestamp
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (f *Fees) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var v struct {
		Fees []struct {
			Kind string         `json:"transaction_type"`
			Gas  hedera.Tinybar `json:"gas"`
		} `json:"fees"`
		Timestamp hedera.Timestamp `json:"timestamp"`
	}
	err := json.UnmarshalDecode(d, &v)
	f.At = v.Timestamp
	for _, fee := range v.Fees {
		switch fee.Kind {
		case "EthereumTransaction":
			f.EthereumTransaction = fee.Gas
		case "ContractCall":
			f.ContractCall = fee.Gas
		case "ContractCreate":
			f.ContractCreate = fee.Gas
		}
	}
	return err
}

// Fees returns the present prices; several callers share one request per freshness interval.
func (c *Client) Fees(ctx context.Context) (*Fees, error) {
	return c.fees.get(ctx, func(ctx context.Context) (*Fees, error) {
		return get[Fees](ctx, c, "network/fees", "network/fees")
	})
}

// feesAt returns the prices at a moment.
func (c *Client) feesAt(ctx context.Context, at hedera.Timestamp) (*Fees, error) {
	return get[Fees](ctx, c, "network/fees", "network/fees?timestamp=lte:"+at.String())
}

// ExchangeRate is the price of ℏ: Hbars cost Cents US cents until Expires.
type ExchangeRate struct {
	Cents   int64 `json:"cent_equivalent"`
	Hbars   int64 `json:"hbar_equivalent"`
	Expires int64 `json:"expiration_time"` // seconds since the Unix epoch
}

// ExchangeRates are the present rate and the next one.
type ExchangeRates struct {
	Current ExchangeRate `json:"current_rate"`
	Next    ExchangeRate `json:"next_rate"`
}

// ExchangeRates returns the network's exchange rates.
func (c *Client) ExchangeRates(ctx context.Context) (*ExchangeRates, error) {
	return get[ExchangeRates](ctx, c, "network/exchangerate", "network/exchangerate")
}
