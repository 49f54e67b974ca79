package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"lockstep/internal/envx"
	"lockstep/internal/ledger"
	"lockstep/internal/redisx"
	"lockstep/internal/secret"
	"lockstep/txmgr"
	"lockstep/txmgr/api"
	"lockstep/txmgr/signers"
	"lockstep/txmgr/webhooks"
)

// Config is every setting of a transaction manager.
type Config struct {
	Ledger   Ledger
	Waker    Waker
	Chains   Chains
	Manager  txmgr.Config
	Signers  signers.Config
	API      api.Config
	Webhooks webhooks.Config
	Treasury Treasury
}

// Ledger says where the ledger is.
type Ledger struct {
	// The ledger: sqlite:FILE, postgres://… for more than one process, or memory: for development.
	URL secret.URL `env:"DATABASE_URL" envDefault:"sqlite:lockstep.db"`
	// File with that URL.
	URLFile secret.String `env:"DATABASE_URL_FILE,file"`
}

// Waker says how processes tell each other of new work.
type Waker struct {
	// Redis over which the processes of a ledger wake each other, instead of PostgreSQL's NOTIFY; needed for that on SQLite and behind a transaction-mode pooler. Nothing is kept in it, and without it owners find new work by TXM_POLL.
	RedisURL secret.URL `env:"TXM_REDIS_URL"`
	// File with that URL.
	RedisURLFile secret.String `env:"TXM_REDIS_URL_FILE,file"`
}

// Chains says which chains there are and which signers serve together.
type Chains struct {
	// Chains by id, as JSON ({"31337":{"url":["http://127.0.0.1:8545"]},"295":{"driver":"hedera"}}) or, for one, 31337=http://127.0.0.1:8545; several URLs of a chain are tried in turn. The driver hedera goes to the nodes of HEDERA_NETWORK, reads from MIRROR_NODE_URL and pays as OPERATOR_ID_MAIN; the driver near signs with TXM_NEAR_KEYS; "mempool":false is for a relay of Hedera (docs/TXM.md).
	Chains secret.String `env:"TXM_CHAINS"`
	// Pools of signers besides "default", which holds all: JSON such as {"fast":["0x…","0x…"]}.
	Pools string `env:"TXM_POOLS"`
}

// Treasury says how signers are topped up.
type Treasury struct {
	// Address of the signer that fills up the others; empty for none.
	Signer string `env:"TXM_TREASURY"`
	// Balance below which a signer is topped up, in the chain's smallest unit.
	Below string `env:"TXM_TOP_UP_BELOW" envDefault:"0"`
	// Balance to which it is topped up.
	To string `env:"TXM_TOP_UP_TO" envDefault:"0"`
	// A signer is topped up at most once in this time, which bounds what a leak can cost.
	Every envx.Millis `env:"TXM_TOP_UP_EVERY" envDefault:"10m"`
}

// Spec is one chain of the settings.
type Spec struct {
	ID     string   `json:"-"`
	Driver string   `json:"driver"` // "" is an Ethereum JSON-RPC endpoint
	URL    []string `json:"url"`    // of endpoints; with the driver hedera, of mirror nodes instead of MIRROR_NODE_URL
	// Network, Operator, Key and KeyFormat stand in for HEDERA_NETWORK, OPERATOR_ID_MAIN,
	// OPERATOR_KEY_MAIN and OPERATOR_KEY_FORMAT with the driver hedera.
	Network   json.RawMessage `json:"network"` // a name, or an object from endpoints to accounts
	Operator  string          `json:"operator"`
	Key       secret.String   `json:"key"`
	KeyFormat string          `json:"keyFormat"`
	// Mempool is false for a chain that refuses all but the next nonce, such as Hedera through somebody else's relay. For
	// Ethereum JSON-RPC endpoints alone; nil: true.
	Mempool *bool `json:"mempool"`
	// Delegates says which signed delegate actions of others the driver near carries; nil: none.
	Delegates *Delegates `json:"delegates"`
	// InFlight and Depth stand in for the driver's own; nil: the driver's.
	InFlight *int    `json:"inFlight"`
	Depth    *uint64 `json:"depth"`
	// GasAdded, GasCap, MinTip, GasPrice and Dev are ethchain.Config's, for Ethereum JSON-RPC endpoints alone. Prices are numbers or text.
	GasAdded *int        `json:"gasAdded"`
	GasCap   uint64      `json:"gasCap"`
	MinTip   json.Number `json:"minTip"`
	GasPrice json.Number `json:"gasPrice"`
	Dev      *bool       `json:"dev"`
	// MaxFeePerGas stands in for TXM_MAX_FEE_PER_GAS, as a number or as text; 0: no cap, "": TXM_MAX_FEE_PER_GAS.
	MaxFeePerGas json.Number `json:"maxFeePerGas"`
}

// feeCap reads MaxFeePerGas; nil if it is not set.
func (s Spec) feeCap() (*big.Int, error) { return s.amount("maxFeePerGas", s.MaxFeePerGas) }

// Prices reads MinTip and GasPrice, nil for what is not set, and checks what stands beside them.
func (s Spec) Prices() (tip, price *big.Int, err error) {
	if tip, err = s.amount("minTip", s.MinTip); err == nil {
		price, err = s.amount("gasPrice", s.GasPrice)
	}
	ethereum := s.Driver == "" || s.Driver == "ethereum"
	switch {
	case err != nil:
	case !ethereum && (s.GasAdded != nil || s.GasCap != 0 || tip != nil || price != nil || s.Dev != nil):
		err = fmt.Errorf("TXM_CHAINS: chain %q: gasAdded, gasCap, minTip, gasPrice and dev are for Ethereum JSON-RPC endpoints", s.ID)
	case tip != nil && price != nil:
		err = fmt.Errorf("TXM_CHAINS: chain %q: want minTip or gasPrice, not both: with a fixed price there is no tip", s.ID)
	}
	return tip, price, err
}

func (s Spec) amount(name string, text json.Number) (*big.Int, error) {
	if text == "" {
		return nil, nil
	}
	price, ok := new(big.Int).SetString(text.String(), 10)
	if !ok || price.Sign() < 0 || price.BitLen() > 256 {
		return nil, fmt.Errorf("TXM_CHAINS: chain %q: %s: want a whole number of the chain's smallest unit", s.ID, name)
	}
	return price, nil
}

// Delegates are the bounds of signed delegate actions (NEP-366), whose gas and deposits the signer pays.
type Delegates struct {
	Receivers  []string `json:"receivers"`  // accounts whose contracts may be called, such as "token.near" or "*.games.near"
	MaxDeposit string   `json:"maxDeposit"` // of one, in yoctoNEAR; "": 0
	MaxGas     uint64   `json:"maxGas"`     // of one; 0: 300 Tgas, which is all that a transaction may have
}

// String names the chain. Its URLs may hold secrets.
func (s Spec) String() string { return "chain " + s.ID }

// GoString names the chain, for %#v.
func (s Spec) GoString() string { return s.String() }

var errChains = errors.New(`TXM_CHAINS: want {"31337":{"url":["http://127.0.0.1:8545"]}}, or 31337=http://127.0.0.1:8545`)

// Parse reads the chains.
func (c Chains) Parse() ([]Spec, error) {
	text := strings.TrimSpace(c.Chains.Reveal())
	if text == "" {
		return nil, errors.New(`TXM_CHAINS is not set: which chains are there? For one, 31337=http://127.0.0.1:8545`)
	}
	byID := map[string]Spec{}
	if strings.HasPrefix(text, "{") {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		if decoder.Decode(&byID) != nil || decoder.More() { // its error may quote a URL with a secret
			return nil, errChains
		}
	} else {
		for pair := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ';' || r == '\n' || r == ' ' }) {
			id, urls, ok := strings.Cut(pair, "=")
			if !ok || id == "" || urls == "" || byID[id].URL != nil {
				return nil, errChains
			}
			byID[id] = Spec{URL: strings.Split(urls, ",")}
		}
	}
	var list []Spec
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		s := byID[id]
		s.ID = id
		ethereum := s.Driver == "" || s.Driver == "ethereum"
		if id == "" || s.Driver == "" && len(s.URL) == 0 || s.Mempool != nil && !ethereum || s.InFlight != nil && *s.InFlight < 1 {
			return nil, fmt.Errorf("%w: chain %q", errChains, id)
		}
		if _, err := s.feeCap(); err != nil {
			return nil, err
		}
		if _, _, err := s.Prices(); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// pools reads the pools.
func (c Chains) pools() (map[string][]string, error) {
	if c.Pools == "" {
		return nil, nil
	}
	var pools map[string][]string
	if err := json.Unmarshal([]byte(c.Pools), &pools); err != nil {
		return nil, fmt.Errorf("TXM_POOLS: %w", err)
	}
	return pools, nil
}

// Validate checks what can be checked without a network, all at once.
func (c Config) Validate() error {
	_, chains := c.Chains.Parse()
	_, pools := c.Chains.pools()
	_, _, treasury := c.Treasury.amounts()
	return errors.Join(chains, pools, treasury, ledger.CheckURL(c.Ledger.DatabaseURL()), c.Waker.validate(), c.Manager.Validate(), c.Signers.Validate(), c.API.Validate(), c.Webhooks.Validate())
}

// DatabaseURL is where the ledger is.
func (l Ledger) DatabaseURL() string { return secret.OfFile(l.URLFile, l.URL.Reveal()) }

func (w Waker) url() string { return secret.OfFile(w.RedisURLFile, w.RedisURL.Reveal()) }

// open returns the waker; nil: there is none. Changed is told when it begins and ceases to fail.
func (w Waker) open(changed func(error)) (*redisx.Hints, error) {
	if w.url() == "" {
		return nil, nil
	}
	hints, err := redisx.NewHints(w.url(), channel, changed)
	if err != nil {
		return nil, fmt.Errorf("TXM_REDIS_URL: %w", err)
	}
	return hints, nil
}

func (w Waker) validate() error {
	if w.url() == "" {
		return nil
	}
	if _, err := redisx.Parse(w.url()); err != nil {
		return fmt.Errorf("TXM_REDIS_URL: %w", err)
	}
	return nil
}
