package mirror

import (
	"context"
	"slices"
	"sync"
	"time"

	"lockstep/internal/hedera"
)

// priceSeconds is the precision of moments. Exchange rates change on the hour, which is a multiple of it.
const priceSeconds = 10

const hour = 3600 // seconds

// GasPriceAt returns the network's gas price at a moment in the past. The price follows the exchange rate, which
// changes once an hour or less often. So between two moments within an hour that have the same price, no request
// is needed. A walk through a chain therefore asks for the end of an hour first, and rarely again.
func (c *Client) GasPriceAt(ctx context.Context, at hedera.Timestamp) (hedera.Tinybar, error) {
	at = hedera.Timestamp{Seconds: at.Seconds - at.Seconds%priceSeconds}
	// Usually the first caller's answer for the hour also serves those who wait for it.
	hour := "price#" + decimal(uint64(at.Seconds/hour))
	const most = 3
	for turns := 0; turns < most; {
		if price, ok := c.prices.find(at); ok {
			return price, nil
		}
		asked, err := c.flights.Do(ctx, hour, func(ctx context.Context) (any, error) { return c.learnPrice(ctx, at) })
		if err != nil {
			return 0, err
		}
		if asked == true {
			turns++
		}
	}
	if price, ok := c.prices.find(at); ok {
		return price, nil
	}
	return c.askPrice(ctx, at)
}

// learnPrice asks for the price at a moment, or at another one that also tells it, unless it has become known
// since the caller looked.
func (c *Client) learnPrice(ctx context.Context, at hedera.Timestamp) (asked bool, err error) {
	if _, ok := c.prices.find(at); ok {
		return false, nil
	}
	if far, ok := c.prices.reach(at, time.Now()); ok {
		if _, err := c.askPrice(ctx, far); err == nil {
			if _, ok := c.prices.find(at); ok {
				return true, nil
			}
		}
	}
	_, err = c.askPrice(ctx, at)
	return true, err
}

func (c *Client) askPrice(ctx context.Context, at hedera.Timestamp) (hedera.Tinybar, error) {
	fees, err := c.feesAt(ctx, at)
	if err != nil {
		return 0, err
	}
	c.prices.add(at, fees.EthereumTransaction)
	return fees.EthereumTransaction, nil
}

// prices are gas prices at moments in the past.
type prices struct {
	mu     sync.Mutex
	points []pricePoint // guarded by mu; in order of time
}

type pricePoint struct {
	at    hedera.Timestamp
	price hedera.Tinybar
}

func (p *prices) find(at hedera.Timestamp) (hedera.Tinybar, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i, found := p.position(at)
	if found {
		return p.points[i].price, true
	}
	if i == 0 || i == len(p.points) {
		return 0, false
	}
	before, after := p.points[i-1], p.points[i]
	return before.price, before.price == after.price && after.at.Seconds-before.at.Seconds <= hour
}

// reach returns an end of a moment's hour such that the moment lies between it and a known price. If the price
// there is the same, it is the same in between.
func (p *prices) reach(at hedera.Timestamp, now time.Time) (far hedera.Timestamp, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i, _ := p.position(at)
	begin := at.Seconds - at.Seconds%hour
	if i > 0 {
		end := min(begin+hour, now.Unix()-now.Unix()%priceSeconds) - priceSeconds
		if end > at.Seconds && end-p.points[i-1].at.Seconds <= hour && (i == len(p.points) || end < p.points[i].at.Seconds) {
			return hedera.Timestamp{Seconds: end}, true
		}
	}
	if i < len(p.points) && begin < at.Seconds && p.points[i].at.Seconds-begin <= hour && (i == 0 || begin > p.points[i-1].at.Seconds) {
		return hedera.Timestamp{Seconds: begin}, true
	}
	return far, false
}

// position is called with mu held.
func (p *prices) position(at hedera.Timestamp) (int, bool) {
	return slices.BinarySearchFunc(p.points, at, func(point pricePoint, at hedera.Timestamp) int {
		return point.at.Compare(at)
	})
}

// add notes a price. Of three equal prices within an hour the middle one tells nothing and is dropped.
func (p *prices) add(at hedera.Timestamp, price hedera.Tinybar) {
	const most = 4096
	p.mu.Lock()
	defer p.mu.Unlock()
	i, found := p.position(at)
	if found {
		p.points[i].price = price
		return
	}
	if len(p.points) >= most {
		p.points, i = p.points[:0], 0
	}
	p.points = slices.Insert(p.points, i, pricePoint{at, price})
	if last := len(p.points) - 1; i == last && i >= 2 {
		a, b := p.points[i-2], p.points[i-1]
		if a.price == price && b.price == price && at.Seconds-a.at.Seconds <= hour {
			p.points = slices.Delete(p.points, i-1, i)
		}
	}
}

func (p *prices) forget() {
	p.mu.Lock()
	p.points = nil
	p.mu.Unlock()
}
