package api

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"lockstep/txmgr"
)

// Transaction is what callers see of an intent.
type Transaction struct {
	ID             string          `json:"id"`
	Chain          string          `json:"chain"`
	Status         txmgr.Status    `json:"status" enum:"accepted,assigned,signed,broadcast,unknown,mined,confirmed,reverted,failed,cancelled,expired,replaced"`
	Final          bool            `json:"final" doc:"The status never changes again."`
	Waiting        string          `json:"waiting,omitempty" doc:"Why it does not move on, in words."`
	Kind           txmgr.Kind      `json:"kind"`
	IdempotencyKey string          `json:"idempotencyKey,omitempty"`
	Signer         string          `json:"signer,omitempty"`
	Nonce          *uint64         `json:"nonce,omitempty"`
	Hash           string          `json:"hash,omitempty" doc:"Of the attempt that was mined, or else of the newest one."`
	Hashes         []string        `json:"hashes,omitempty"`
	Receipt        *Receipt        `json:"receipt,omitempty"`
	Error          *txmgr.Failure  `json:"error,omitempty"`
	To             string          `json:"to,omitempty"`
	Value          *Quantity       `json:"value,omitempty"`
	Data           Bytes           `json:"data,omitempty"`
	Gas            uint64          `json:"gas,omitempty"`
	Speed          string          `json:"speed,omitempty"`
	Pool           string          `json:"pool,omitempty"`
	OrderKey       string          `json:"orderKey,omitempty"`
	Replaces       string          `json:"replaces,omitempty"`
	Cancelling     bool            `json:"cancelling,omitempty"`
	Subject        string          `json:"subject,omitempty"`
	Actor          string          `json:"actor,omitempty"`
	Method         string          `json:"method,omitempty"`
	RequestID      string          `json:"requestId,omitempty"`
	Metadata       json.RawMessage `json:"metadata,omitempty"`
	AcceptedAt     *Moment         `json:"acceptedAt,omitempty"`
	UpdatedAt      *Moment         `json:"updatedAt,omitempty"`
	Attempts       []Attempt       `json:"attempts,omitempty"`
	Timeline       []txmgr.Step    `json:"timeline,omitempty"`
}

// Receipt is what the chain says of an executed transaction.
type Receipt struct {
	Hash      string          `json:"transactionHash"`
	Block     uint64          `json:"blockNumber"`
	BlockHash string          `json:"blockHash"`
	Success   bool            `json:"success"`
	GasUsed   uint64          `json:"gasUsed"`
	GasPrice  *Quantity       `json:"effectiveGasPrice,omitempty"`
	Contract  string          `json:"contractAddress,omitempty"`
	Final     bool            `json:"final"`
	Reason    string          `json:"reason,omitempty" doc:"Why it failed, as far as its contract or a second try on the same state tells."`
	Raw       json.RawMessage `json:"raw,omitempty" doc:"As the chain gave it."`
}

func viewReceipt(r *txmgr.Receipt) *Receipt {
	if r == nil {
		return nil
	}
	return &Receipt{
		Hash: r.Hash, Block: r.Block, BlockHash: r.BlockHash, Success: r.Success, GasUsed: r.GasUsed, GasPrice: quantity(r.GasPrice),
		Contract: r.Contract, Final: r.Final, Reason: r.Reason, Raw: r.Raw,
	}
}

// Attempt is one signed transaction.
type Attempt struct {
	Hash                 string             `json:"hash"`
	Nonce                uint64             `json:"nonce"`
	Version              int                `json:"version"`
	Purpose              txmgr.Purpose      `json:"purpose"`
	State                txmgr.AttemptState `json:"state"`
	MaxFeePerGas         *Quantity          `json:"maxFeePerGas,omitempty"`
	MaxPriorityFeePerGas *Quantity          `json:"maxPriorityFeePerGas,omitempty"`
	Gas                  uint64             `json:"gas"`
	SignedAt             *Moment            `json:"signedAt,omitempty"`
	SentAt               *Moment            `json:"sentAt,omitempty"`
	Offers               int                `json:"offers"`
	Error                *txmgr.Failure     `json:"error,omitempty"`
}

func viewIntent(i *txmgr.Intent) Transaction {
	t := Transaction{
		ID: i.ID, Chain: i.Chain, Status: i.Status, Final: i.Final, Waiting: i.Waiting, Kind: i.Kind, IdempotencyKey: i.IdempotencyKey,
		Signer: i.Signer, Hash: i.Hash, Receipt: viewReceipt(i.Receipt), Error: i.Told(), To: i.To, Value: quantity(i.Value), Data: i.Data, Gas: i.Gas,
		Speed: i.Speed, Pool: i.Pool, OrderKey: i.OrderKey, Replaces: i.Replaces, Cancelling: i.Cancel, Subject: i.Subject, Actor: i.Actor,
		Method: i.Method, RequestID: i.RequestID, Metadata: i.Metadata, AcceptedAt: moment(i.Accepted), UpdatedAt: moment(i.Updated),
	}
	if i.Signer != "" {
		t.Nonce = &i.Nonce
	}
	return t
}

func viewTransaction(full *txmgr.Transaction) Transaction {
	t := viewIntent(&full.Intent)
	t.Timeline = full.Timeline
	for _, a := range full.Attempts {
		t.Hashes = append(t.Hashes, a.Hash)
		t.Attempts = append(t.Attempts, Attempt{
			Hash: a.Hash, Nonce: a.Nonce, Version: a.Version, Purpose: a.Purpose, State: a.State, MaxFeePerGas: quantity(a.Fees.Max),
			MaxPriorityFeePerGas: quantity(a.Fees.Tip), Gas: a.Gas, SignedAt: moment(a.SignedAt), SentAt: moment(a.SentAt), Offers: a.Offers, Error: a.Told(),
		})
	}
	return t
}

// IntentBody is what a caller wants to happen.
type IntentBody struct {
	Chain                ChainID           `json:"chain"`
	To                   string            `json:"to,omitempty" maxLength:"256" doc:"Receiver; none deploys the contract in data."`
	Value                *Quantity         `json:"value,omitempty"`
	Data                 Bytes             `json:"data,omitempty"`
	Actions              json.RawMessage   `json:"actions,omitempty" doc:"On NEAR, instead of data and value: the actions of the transaction, in the form in which nodes show them (docs/TXM.md)."`
	Function             string            `json:"function,omitempty" maxLength:"4096" doc:"Instead of data: the function to call, as transfer(address to,uint256 amount), or by its name alone with an abi."`
	Args                 []json.RawMessage `json:"args,omitempty" maxItems:"20" doc:"Arguments of the function or of the constructor: numbers as integers, decimal text or 0x text, bytes as 0x text, tuples as lists."`
	Bytecode             Bytes             `json:"bytecode,omitempty" doc:"Instead of to and data: deploys this code. Arguments of its constructor are args, their types those of function (constructor(string name)) or of the abi."`
	ABI                  json.RawMessage   `json:"abi,omitempty" doc:"The contract's ABI, or a compiler's artefact that has it."`
	AccessList           json.RawMessage   `json:"accessList,omitempty" doc:"Addresses and storage slots that it will touch (EIP-2930)."`
	AuthorizationList    json.RawMessage   `json:"authorizationList,omitempty" doc:"Signed delegations of accounts to code (EIP-7702)."`
	GasPrice             *Quantity         `json:"gasPrice,omitempty" doc:"The price per gas, of a transaction without a tip; instead of maxFeePerGas and maxPriorityFeePerGas."`
	Gas                  *Number           `json:"gas,omitempty" doc:"Gas limit, more than 0; none: estimated."`
	Speed                string            `json:"speed,omitempty" enum:"slow,standard,fast"`
	MaxFeePerGas         *Quantity         `json:"maxFeePerGas,omitempty"`
	MaxPriorityFeePerGas *Quantity         `json:"maxPriorityFeePerGas,omitempty"`
	Pool                 string            `json:"pool,omitempty" maxLength:"256"`
	Pin                  string            `json:"pin,omitempty" maxLength:"256" doc:"The signer to use."`
	OrderKey             string            `json:"orderKey,omitempty" maxLength:"256" doc:"Intents of one order key are executed in the order of their acceptance."`
	ShardKey             string            `json:"shardKey,omitempty" maxLength:"256" doc:"Intents of one shard key prefer one signer."`
	ValidUntil           Moment            `json:"validUntil,omitempty"`
	Simulate             string            `json:"simulate,omitempty" enum:"latest,pending,off"`
	OnFailure            string            `json:"onFailure,omitempty" enum:"stop,continue"`
	KeepTrying           bool              `json:"keepTrying,omitempty" doc:"Never cancelled for its age alone."`
	Subject              string            `json:"subject,omitempty" maxLength:"256" doc:"Orders webhooks."`
	Actor                string            `json:"actor,omitempty" maxLength:"256" doc:"Who it is for; budgets and rates know it."`
	Method               string            `json:"method,omitempty" maxLength:"256"`
	RequestID            string            `json:"requestId,omitempty" maxLength:"256"`
	IdempotencyKey       string            `json:"idempotencyKey,omitempty" maxLength:"256" doc:"Like the header Idempotency-Key, which wins."`
	Metadata             json.RawMessage   `json:"metadata,omitempty"`
}

// Resolve refuses what cannot be told apart in a request any more.
func (b *IntentBody) Resolve(huma.Context) []error {
	switch {
	case b.Gas != nil && *b.Gas == 0:
		return []error{&huma.ErrorDetail{Location: "body.gas", Message: "want more than 0, or leave it out: then it is estimated"}}
	case b.GasPrice != nil && (b.MaxFeePerGas != nil || b.MaxPriorityFeePerGas != nil):
		return []error{&huma.ErrorDetail{Location: "body.gasPrice", Message: "want gasPrice, or maxFeePerGas and maxPriorityFeePerGas, not both"}}
	}
	return nil
}

func (b IntentBody) request(tenant, key string) txmgr.Request {
	key = cmp.Or(key, b.IdempotencyKey)
	var calling *txmgr.Calling
	if b.Function != "" || len(b.Args) > 0 || len(b.Bytecode) > 0 || len(b.ABI) > 0 {
		calling = &txmgr.Calling{Function: b.Function, Args: b.Args, Bytecode: b.Bytecode, ABI: b.ABI}
	}
	var gas uint64
	if b.Gas != nil {
		gas = uint64(*b.Gas)
	}
	extra := txmgr.Extra{AccessList: b.AccessList, Authorizations: b.AuthorizationList, OnePrice: b.GasPrice != nil}
	if b.GasPrice != nil {
		b.MaxFeePerGas = b.GasPrice
	}
	return txmgr.Request{
		Extra: extra, Tenant: tenant, Calling: calling, Chain: string(b.Chain), IdempotencyKey: key, Origin: "api", To: b.To, Value: b.Value.value(), Data: b.Data, Actions: b.Actions, Gas: gas,
		Speed: b.Speed, MaxFee: b.MaxFeePerGas.value(), MaxTip: b.MaxPriorityFeePerGas.value(), Simulate: b.Simulate, ValidUntil: int64(b.ValidUntil),
		Pool: b.Pool, Pin: b.Pin, OrderKey: b.OrderKey, ShardKey: b.ShardKey, OnFailure: b.OnFailure, KeepTrying: b.KeepTrying,
		Subject: b.Subject, Actor: b.Actor, Method: b.Method, RequestID: b.RequestID, Metadata: b.Metadata,
	}
}

// Quantity is an amount: decimal text, 0x-hexadecimal text, or a JSON integer of any
// length. It is written as decimal text.
type Quantity struct{ Int *big.Int }

var errQuantity = errors.New("want a number that is not negative and has a maximum of 256 bits: decimal or 0x text, or an integer")

// maxDigits is the length of the largest 256-bit number in decimal.
const maxDigits = 78

func parseQuantity(text string) (*big.Int, error) {
	if len(text) == 0 || len(text) > maxDigits {
		return nil, errQuantity
	}
	base, digits := 10, text
	if rest, ok := strings.CutPrefix(text, "0x"); ok {
		base, digits = 16, rest
	}
	if digits == "" || strings.TrimLeft(digits, "0123456789abcdefABCDEF") != "" {
		return nil, errQuantity
	}
	n, ok := new(big.Int).SetString(digits, base)
	if !ok || n.BitLen() > 256 {
		return nil, errQuantity
	}
	return n, nil
}

// UnmarshalJSON reads any of the three forms.
func (q *Quantity) UnmarshalJSON(raw []byte) error {
	text, err := textOf(raw)
	if err != nil {
		return errQuantity
	}
	q.Int, err = parseQuantity(text)
	return err
}

// MarshalJSON writes decimal text.
func (q Quantity) MarshalJSON() ([]byte, error) {
	if q.Int == nil {
		return []byte("null"), nil
	}
	return []byte(`"` + q.Int.String() + `"`), nil
}

// textOf returns the characters of a JSON string or number.
func textOf(raw []byte) (string, error) {
	if len(raw) > 0 && raw[0] == '"' {
		var text string
		err := json.Unmarshal(raw, &text)
		return text, err
	}
	return string(raw), nil
}

func quantity(n *big.Int) *Quantity {
	if n == nil {
		return nil
	}
	return &Quantity{n}
}

func (q *Quantity) value() *big.Int {
	if q == nil {
		return nil
	}
	return q.Int
}

// Schema describes what is read.
func (Quantity) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		OneOf:       []*huma.Schema{{Type: huma.TypeString, Pattern: "^([0-9]{1,78}|0x[0-9a-fA-F]{1,64})$"}, {Type: huma.TypeInteger, Minimum: new(float64)}},
		Description: "An amount in the chain's smallest unit: decimal text, 0x text or an integer.", Examples: []any{"1000000000000000000"},
	}
}

// Number is a 64-bit number, read in the same forms and written as a JSON integer.
type Number uint64

// UnmarshalJSON reads any of the three forms.
func (n *Number) UnmarshalJSON(raw []byte) error {
	var q Quantity
	if err := q.UnmarshalJSON(raw); err != nil {
		return err
	}
	if !q.Int.IsUint64() {
		return errors.New("want no more than 64 bits")
	}
	*n = Number(q.Int.Uint64())
	return nil
}

// Schema describes what is read.
func (Number) Schema(r huma.Registry) *huma.Schema {
	s := Quantity{}.Schema(r)
	s.Description, s.Examples = "A number with a maximum of 64 bits.", []any{21000}
	return s
}

// ChainID names a chain: for Ethereum its number, which may be written as decimal text, 0x
// text or an integer; other chains have names.
type ChainID string

// UnmarshalJSON spells numbers in decimal.
func (c *ChainID) UnmarshalJSON(raw []byte) error {
	text, err := textOf(raw)
	if err != nil || text == "" || len(text) > 64 || text == "null" || raw[0] != '"' && strings.TrimLeft(text, "0123456789") != "" {
		return errors.New("want the id of a chain")
	}
	name := chainName(text)
	if name == text && strings.HasPrefix(strings.ToLower(text), "0x") {
		return errors.New("want the id of a chain")
	}
	*c = ChainID(name)
	return nil
}

// chainName spells the name of a chain of a path or a query as ChainID does that of a body.
func chainName(text string) string {
	if strings.HasPrefix(text, "0x") || strings.HasPrefix(text, "0X") {
		if n, err := parseQuantity("0x" + text[2:]); err == nil {
			return n.String()
		}
	}
	return text
}

// ChainQuery names a chain in a query.
type ChainQuery struct {
	Chain string `query:"chain" maxLength:"64" doc:"A chain: its number in decimal or as 0x text, or its name."`
}

func (q ChainQuery) chain() string { return chainName(q.Chain) }

// hashName spells the hash of a transaction as the ledger does. Hashes that are not in hexadecimal tell cases apart.
func hashName(text string) string {
	digits, _ := strings.CutPrefix(strings.ToLower(text), "0x")
	if raw, err := hex.DecodeString(digits); err == nil && (len(raw) == 32 || len(raw) == 48) {
		return "0x" + digits
	}
	return text
}

// Schema describes what is read.
func (ChainID) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		OneOf:       []*huma.Schema{{Type: huma.TypeString}, {Type: huma.TypeInteger}},
		Description: "A chain: its number as decimal text, 0x text or an integer.", Examples: []any{"31337"},
	}
}

// Bytes are bytes as 0x text.
type Bytes []byte

// UnmarshalJSON reads 0x text; the 0x may be left out.
func (b *Bytes) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return errors.New("want bytes as 0x text")
	}
	decoded, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil {
		return errors.New("want bytes as 0x text")
	}
	*b = decoded
	return nil
}

// MarshalJSON writes 0x text.
func (b Bytes) MarshalJSON() ([]byte, error) { return []byte(`"0x` + hex.EncodeToString(b) + `"`), nil }

// Schema describes what is read.
func (Bytes) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: "^(0x)?([0-9a-fA-F]{2})*$", Description: "Bytes as 0x text.", Examples: []any{"0xd09de08a"}}
}

// Moment is a time: RFC 3339 text, or seconds since 1970. It is written as text.
type Moment int64 // microseconds since 1970

// UnmarshalJSON reads either form.
func (m *Moment) UnmarshalJSON(raw []byte) error {
	text, err := textOf(raw)
	if err != nil {
		return err
	}
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil && seconds >= 0 && seconds < 1<<40 {
		*m = Moment(seconds * 1_000_000)
		return nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.Year() > 9999 || at.Year() < 1970 {
		return errors.New("want a time such as 2026-01-31T12:00:00Z, or seconds since 1970")
	}
	*m = Moment(at.UnixMicro())
	return nil
}

// MarshalJSON writes RFC 3339.
func (m Moment) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%q", time.UnixMicro(int64(m)).UTC().Format(time.RFC3339Nano)), nil
}

// Schema describes what is read.
func (Moment) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		OneOf:       []*huma.Schema{{Type: huma.TypeString, Format: "date-time"}, {Type: huma.TypeInteger}},
		Description: "A time: RFC 3339, or seconds since 1970.", Examples: []any{"2026-01-31T12:00:00Z"},
	}
}

func moment(at int64) *Moment {
	if at == 0 {
		return nil
	}
	m := Moment(at)
	return &m
}
