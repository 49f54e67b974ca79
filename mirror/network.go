package mirror

import (
	"context"

	"lockstep/hedera"
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
			r.array(func() bool { readFee(r, f); return true })
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

// Fees returns the prices of now; several callers share one request per freshness
// interval.
func (c *Client) Fees(ctx context.Context) (*Fees, error) {
	return c.fees.get(ctx, func(ctx context.Context) (*Fees, error) {
		return get(ctx, c, "network/fees", "network/fees", readFees)
	})
}

// KnownFees returns what Fees would return without asking anybody; ok is false when it
// would have to.
func (c *Client) KnownFees() (fees *Fees, ok bool) { return c.fees.now() }

// FeesAt returns the prices at a moment.
func (c *Client) FeesAt(ctx context.Context, at hedera.Timestamp) (*Fees, error) {
	return get(ctx, c, "network/fees", "network/fees?timestamp=lte:"+at.String(), readFees)
}

// ExchangeRate says what ℏ are worth: Hbars cost Cents US cents until Expires.
type ExchangeRate struct {
	Cents, Hbars int64
	Expires      int64 // seconds since the Unix epoch
}

// ExchangeRates are the rate of now and the one that follows.
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

// Balance is an account's balance in a snapshot.
type Balance struct {
	Account hedera.ID
	Amount  hedera.Tinybar
}

// SnapshotBalance returns an account's balance in the newest snapshot that is not
// younger than a moment; the zero time is now. ErrNotFound: the snapshot has no
// such account, or there is no snapshot.
func (c *Client) SnapshotBalance(ctx context.Context, id hedera.ID, at hedera.Timestamp) (hedera.Tinybar, error) {
	path := "balances?account.id=" + id.String()
	if !at.IsZero() {
		path += "&timestamp=" + at.String()
	}
	l := list[Balance]{label: "balances", path: path, member: "balances", maxPages: 1, read: func(r *reader, b *Balance) {
		r.object(func(key []byte) {
			switch string(key) {
			case "account":
				b.Account = r.id()
			case "balance":
				b.Amount = hedera.Tinybar(r.int64())
			default:
				r.skip()
			}
		})
	}}
	page, err := l.page(ctx, c, l.path)
	if err != nil {
		return 0, err
	}
	for _, balance := range page.items {
		if balance.Account == id {
			return balance.Amount, nil
		}
	}
	return 0, ErrNotFound
}
