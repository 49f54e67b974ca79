package mirror

import (
	"cmp"
	"context"
	"net"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	lru "github.com/hashicorp/golang-lru/v2"

	"lockstep/internal/hedera"
)

// Fees are the prices of gas in tinybar.
type Fees struct {
	EthereumTransaction hedera.Tinybar
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (f *Fees) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var v struct {
		Fees []struct {
			Kind string         `json:"transaction_type"`
			Gas  hedera.Tinybar `json:"gas"`
		} `json:"fees"`
	}
	err := json.UnmarshalDecode(d, &v)
	for _, fee := range v.Fees {
		if fee.Kind == "EthereumTransaction" {
			f.EthereumTransaction = fee.Gas
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

// Node is a consensus node in the network's address book.
type Node struct {
	Account   hedera.ID
	Endpoints []string // host:port of its gRPC services
	CertHash  string   // hexadecimal SHA-384 of its certificate in PEM form; empty: none
}

// Nodes returns the network's address book, whole or not at all.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	nodes := list[Node]{
		label: "network/nodes", path: "network/nodes?limit=" + strconv.Itoa(nodesPerPage), member: "nodes", maxPages: maxNodePages,
	}
	var found []Node
	for node, err := range nodes.items(ctx, c) {
		if err != nil {
			return nil, err
		}
		found = append(found, *node)
	}
	return found, nil
}

// The mirror node gives a maximum of 25 nodes a page; networks have some dozens.
const (
	nodesPerPage = 25
	maxNodePages = 40
)

// UnmarshalJSONFrom implements json.UnmarshalerFrom. A service is named by its domain, or else by its IPv4 address.
func (n *Node) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var v struct {
		Account   hedera.ID `json:"node_account_id"`
		CertHash  string    `json:"node_cert_hash"`
		Endpoints []struct {
			Name    string `json:"domain_name"`
			Address string `json:"ip_address_v4"`
			Port    int64  `json:"port"`
		} `json:"service_endpoints"`
	}
	err := json.UnmarshalDecode(d, &v)
	*n = Node{Account: v.Account, CertHash: v.CertHash}
	for _, e := range v.Endpoints {
		if host := cmp.Or(e.Name, e.Address); host != "" && e.Port >= 1 && e.Port <= 65535 {
			n.Endpoints = append(n.Endpoints, net.JoinHostPort(host, strconv.FormatInt(e.Port, 10)))
		}
	}
	return err
}

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
