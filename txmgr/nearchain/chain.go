package nearchain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"lockstep/internal/near"
	"lockstep/internal/outage"
	"lockstep/txmgr"
)

// Config is one chain's.
type Config struct {
	ID       string
	URLs     []string
	InFlight int           // transactions of a key that may be on their way; 0: 100
	Timeout  time.Duration // of one question; 0: 5 s
	// Delegates says which delegate actions of others are carried; nil: none.
	Delegates *Delegates
	Validity  uint64 // blocks for which a transaction's block is good; 0: 86,400, as on all public networks
	Log       *slog.Logger
}

// Chain is a txmgr.Chain of NEAR's nodes.
type Chain struct {
	config    Config
	timeout   time.Duration
	endpoints []*endpoint

	mu     sync.Mutex
	looked time.Time        // when other nodes were asked for a transaction last
	recent block            // a final block for transactions to name
	asked  time.Time        // when it was
	powers map[string]power // by signer
}

var _ txmgr.Chain = (*Chain)(nil)

// New returns the driver. It asks nothing yet.
func New(c Config) (*Chain, error) {
	if c.ID == "" || len(c.URLs) == 0 {
		return nil, errors.New("a chain needs its id and at least one URL")
	}
	c.InFlight = cmp.Or(c.InFlight, 100)
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	c.Validity = cmp.Or(c.Validity, 86_400)
	out := &Chain{config: c, timeout: c.Timeout}
	for n, url := range c.URLs {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost, transport.Proxy = 32, nil
		name := fmt.Sprintf("node %d of chain %s", n+1, c.ID)
		out.endpoints = append(out.endpoints, &endpoint{
			name: name, url: url, client: &http.Client{
				Transport:     transport,
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the URL names the node, no answer does
			},
			log: outage.Log{Logger: c.Log, Upstream: "node", Name: name, Consequence: "others of the chain are asked, if there are any", Level: slog.LevelWarn},
		})
	}
	return out, nil
}

// ID returns the chain's name in the ledger.
func (c *Chain) ID() string { return c.config.ID }

// Traits returns what the owner may rely on. What the driver shows is final.
func (c *Chain) Traits() txmgr.Traits {
	return txmgr.Traits{Order: txmgr.OrderRising, Validity: txmgr.ValidPayload, InFlight: c.config.InFlight, Unit: txmgr.Unit{Name: "NEAR", Decimals: 24}}
}

// Endpoints tells which of the nodes fail.
func (c *Chain) Endpoints() (count int, failing []outage.Failing) {
	for n, e := range c.endpoints {
		if since := e.Since(); !since.IsZero() {
			failing = append(failing, outage.Failing{Number: n + 1, Why: "fails", Since: since})
		}
	}
	return len(c.endpoints), failing
}

// Close closes idle connections.
func (c *Chain) Close() {
	for _, e := range c.endpoints {
		e.client.CloseIdleConnections()
	}
}

// signer is an account, and its access key where there is one.
type signer struct {
	account string
	key     near.PublicKey
	keyed   bool
}

// etherAddress is the form of accounts that belong to keys of Ethereum. They are no names
// here, or the manager's keys for other chains would be taken for keys of this one.
var etherAddress = regexp.MustCompile(`^0x[0-9a-f]{40}$`)

func parseSigner(text string) (signer, error) {
	account, key, keyed := strings.Cut(text, "/")
	if err := near.CheckAccount(account); err != nil {
		return signer{}, err
	}
	if etherAddress.MatchString(account) {
		return signer{}, errors.New("accounts of Ethereum's addresses are not supported")
	}
	s := signer{account: account, keyed: keyed}
	if keyed {
		var err error
		if s.key, err = near.ParsePublicKey(key); err != nil {
			return signer{}, err
		}
	}
	return s, nil
}

func (s signer) String() string {
	if !s.keyed {
		return s.account
	}
	return s.account + "/" + s.key.String()
}

// keyOf reads the name of a signer, which has a key.
func keyOf(text string) (signer, error) {
	s, err := parseSigner(text)
	if err == nil && !s.keyed {
		err = errors.New("an account without an access key signs nothing")
	}
	return s, err
}

// Account takes an account id, or one with an access key: "relayer.near/ed25519:…".
func (c *Chain) Account(text string) (string, error) {
	s, err := parseSigner(text)
	return s.String(), err
}

// Identity returns the chain's name and the hash of its first block.
func (c *Chain) Identity(ctx context.Context) (string, error) {
	type answer struct {
		Chain   string `json:"chain_id"`
		Genesis string `json:"genesis_hash"`
	}
	status, err := one(ctx, c, question[answer]("status", []any{}))
	if err == nil && status.Genesis == "" {
		err = errors.New("the node names no first block")
	}
	return status.Chain + " " + status.Genesis, err
}

func headOf(b block) txmgr.Head {
	return txmgr.Head{Number: b.Header.Height, Hash: b.Header.Hash, Time: b.Header.Time / 1000}
}

// Head returns the newest final block.
func (c *Chain) Head(ctx context.Context) (txmgr.Head, error) {
	b, err := c.block(ctx, final)
	return headOf(b), err
}

// BlockHash returns the hash of the block at a height, which is final.
func (c *Chain) BlockHash(ctx context.Context, number, _ uint64) (string, error) {
	b, err := c.block(ctx, object{"block_id": number})
	if is(err, "UNKNOWN_BLOCK") {
		return "", nil
	}
	return b.Header.Hash, err
}

// Nonces asks one node for the key's nonce after its newest final block.
func (c *Chain) Nonces(ctx context.Context, account string) (txmgr.Nonces, error) {
	s, err := keyOf(account)
	if err != nil {
		return txmgr.Nonces{}, err
	}
	return one(ctx, c, func(ctx context.Context, e *endpoint) (txmgr.Nonces, error) {
		b, err := e.block(ctx, final)
		if err != nil {
			return txmgr.Nonces{}, err
		}
		k, err := e.accessKey(ctx, s, final)
		return txmgr.Nonces{Latest: k.Nonce + 1, Head: headOf(b)}, err
	})
}

// HighestPending asks every node for the nonce after its newest block, final or not. What
// waits for a block nobody shows.
func (c *Chain) HighestPending(ctx context.Context, account string) (latest, pending uint64, err error) {
	s, err := keyOf(account)
	if err != nil {
		return 0, 0, err
	}
	var highest uint64
	for _, e := range c.endpoints {
		part, cancel := context.WithTimeout(ctx, c.timeout)
		k, err := e.accessKey(part, s, optimistic)
		cancel()
		if err != nil {
			return 0, 0, err
		}
		highest = max(highest, k.Nonce+1)
	}
	return highest, highest, nil
}

// Balance returns the account's yoctoNEAR, without what is staked.
func (c *Chain) Balance(ctx context.Context, account string) (*big.Int, error) {
	s, err := parseSigner(account)
	if err != nil {
		return nil, err
	}
	type answer struct {
		Amount string `json:"amount"`
	}
	view, err := one(ctx, c, question[answer]("query", object{"request_type": "view_account", "account_id": s.account, "finality": "final"}))
	if err != nil {
		return nil, err
	}
	amount, ok := new(big.Int).SetString(view.Amount, 10)
	if !ok {
		return nil, errors.New("the node names no balance")
	}
	return amount, nil
}

// Delegated reports that no key of NEAR is limited to one transaction in flight. It asks
// whether the key is there.
func (c *Chain) Delegated(ctx context.Context, account string) (bool, error) {
	_, err := c.Nonces(ctx, account)
	return false, err
}

// Market returns the price of gas, which the network sets: nobody can pay more to be faster.
func (c *Chain) Market(ctx context.Context) (txmgr.Market, error) {
	type answer struct {
		Price string `json:"gas_price"`
	}
	said, err := one(ctx, c, question[answer]("gas_price", []any{nil}))
	if err != nil {
		return txmgr.Market{}, err
	}
	price, ok := new(big.Int).SetString(said.Price, 10)
	if !ok {
		return txmgr.Market{}, errors.New("the node names no price")
	}
	fees := txmgr.Fees{Max: price}
	return txmgr.Market{
		Tips: map[string]txmgr.Fees{txmgr.SpeedSlow: fees, txmgr.SpeedStandard: fees, txmgr.SpeedFast: fees}, At: time.Now().UnixMicro(),
	}, nil
}
