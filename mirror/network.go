package mirror

import (
	"context"

	"lockstep/internal/hedera"
)

// Fees are the prices of gas in tinybar, by kind of transaction.
type Fees struct {
	EthereumTransaction hedera.Tinybar
	ContractCall        hedera.Tinybar
	ContractCreate      hedera.Tinybar
	At                  hedera.Timestamp
}

func readFees(r *reader, f *Fees) {
	r.object(func(key []byte) {
		switch string(key) {
		case "fees":
			r.array(func() { readFee(r, f) })
		case "timestamp":
			f.At = r.time()
		default:
			r.skip()
		}
	})
}

func readFee(r *reader, f *Fees) {
	var kind string
	var gas hedera.Tinybar
	r.object(func(key []byte) {
		switch string(key) {
		case "transaction_type":
			kind = r.str()
		case "gas":
			gas = hedera.Tinybar(r.int64())
		default:
			r.skip()
		}
	})
	switch kind {
	case "EthereumTransaction":
		f.EthereumTransaction = gas
	case "ContractCall":
		f.ContractCall = gas
	case "ContractCreate":
		f.ContractCreate = gas
	}
}

// Fees returns the present prices; several callers share one request per freshness interval.
func (c *Client) Fees(ctx context.Context) (*Fees, error) {
	return c.fees.get(ctx, func(ctx context.Context) (*Fees, error) {
		return get(ctx, c, "network/fees", "network/fees", readFees)
	})
}

// KnownFees returns what Fees returns if no request is needed for it; ok is false otherwise.
func (c *Client) KnownFees() (fees *Fees, ok bool) { return c.fees.now() }

// feesAt returns the prices at a moment.
func (c *Client) feesAt(ctx context.Context, at hedera.Timestamp) (*Fees, error) {
	return get(ctx, c, "network/fees", "network/fees?timestamp=lte:"+at.String(), readFees)
}

// ExchangeRate is the price of ℏ: Hbars cost Cents US cents until Expires.
type ExchangeRate struct {
	Cents, Hbars int64
	Expires      int64 // seconds since the Unix epoch
}

// ExchangeRates are the present rate and the next one.
type ExchangeRates struct {
	Current, Next ExchangeRate
}

// ExchangeRates returns the network's exchange rates.
func (c *Client) ExchangeRates(ctx context.Context) (*ExchangeRates, error) {
	return get(ctx, c, "network/exchangerate", "network/exchangerate", func(r *reader, rates *ExchangeRates) {
		r.object(func(key []byte) {
			switch string(key) {
			case "current_rate":
				rates.Current = readRate(r)
			case "next_rate":
				rates.Next = readRate(r)
			default:
				r.skip()
			}
		})
	})
}

func readRate(r *reader) (rate ExchangeRate) {
	r.object(func(key []byte) {
		switch string(key) {
		case "cent_equivalent":
			rate.Cents = r.int64()
		case "hbar_equivalent":
			rate.Hbars = r.int64()
		case "expiration_time":
			rate.Expires = r.int64()
		default:
			r.skip()
		}
	})
	return rate
}
