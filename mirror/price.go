package mirror

import (
	"context"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"lockstep/internal/hedera"
)

// priceSeconds is the precision of moments. Exchange rates change on the hour, which is a multiple of it.
const priceSeconds = 10

const hour = 3600 // seconds

// knownHours is of how many hours the price is kept.
const knownHours = 4096

// hourPrice is the gas price between two moments of one hour, both included, in seconds.
type hourPrice struct {
	from, to int64
	price    hedera.Tinybar
}

func (p hourPrice) at(moment int64) bool { return p.from <= moment && moment <= p.to }

func newPrices() *lru.Cache[int64, hourPrice] {
	prices, _ := lru.New[int64, hourPrice](knownHours) // it fails for no size only
	return prices
}

// GasPriceAt returns the network's gas price at a moment in the past. The price follows the exchange rate, which
// changes once an hour or less often: between two moments of an hour that have the same price, no request is needed. A
// walk through an hour therefore asks for its second moment at the end of the hour, and rarely again.
func (c *Client) GasPriceAt(ctx context.Context, at hedera.Timestamp) (hedera.Tinybar, error) {
	moment := at.Seconds - at.Seconds%priceSeconds
	const turns = 3 // what the first caller learns usually also serves those who wait for it
	for range turns {
		if known, ok := c.prices.Get(moment / hour); ok && known.at(moment) {
			return known.price, nil
		}
		learnt, err := c.flights.Do(ctx, "price#"+decimal(uint64(moment/hour)), func(ctx context.Context) (any, error) { return c.learnPrice(ctx, moment) })
		if err != nil {
			return 0, err
		}
		if p := learnt.(hourPrice); p.at(moment) {
			return p.price, nil
		}
	}
	return c.askPrice(ctx, moment)
}

// learnPrice asks for the price at a moment unless it has become known. If an end of the hour has the price that is
// known of its middle, the moment between them has it as well.
func (c *Client) learnPrice(ctx context.Context, moment int64) (hourPrice, error) {
	known, ok := c.prices.Get(moment / hour)
	if ok && known.at(moment) {
		return known, nil
	}
	if ok {
		end := moment - moment%hour
		if moment > known.to {
			end = max(moment, min(end+hour, time.Now().Unix())/priceSeconds*priceSeconds-priceSeconds)
		}
		price, err := c.askPrice(ctx, end)
		if err != nil {
			return hourPrice{}, err
		}
		if price == known.price {
			return c.keepPrice(known, end), nil
		}
	}
	price, err := c.askPrice(ctx, moment)
	if err != nil {
		return hourPrice{}, err
	}
	if !ok || price != known.price {
		known = hourPrice{moment, moment, price}
	}
	return c.keepPrice(known, moment), nil
}

// keepPrice notes that a price holds up to another moment of its hour.
func (c *Client) keepPrice(p hourPrice, to int64) hourPrice {
	p.from, p.to = min(p.from, to), max(p.to, to)
	c.prices.Add(to/hour, p)
	return p
}

func (c *Client) askPrice(ctx context.Context, moment int64) (hedera.Tinybar, error) {
	fees, err := c.feesAt(ctx, hedera.Timestamp{Seconds: moment})
	if err != nil {
		return 0, err
	}
	return fees.EthereumTransaction, nil
}
