package mirror

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"lockstep/internal/hedera"
)

// Account is an account or a contract, now or at a moment in the past.
type Account struct {
	ID                hedera.ID
	Address           common.Address // its alias, else its long-zero address
	Balance           hedera.Tinybar
	BalanceKnown      bool             // the mirror node told it
	BalanceTime       hedera.Timestamp // when it had that balance; zero if not told
	Nonce             *uint64          // nil: it never was, nor can be, an Ethereum sender
	Created           hedera.Timestamp
	Delegation        *common.Address // what an authorization made its code; nil for none
	Deleted           bool
	ReceiverSignature bool   // it must sign every transfer to it
	PublicKey         []byte // its key, if that is a single one; nil for any other
	Transactions      []*Transaction
	next              string
	told              common.Address // its alias; zero if there was none in the answer
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (a *Account) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var v struct {
		ID      hedera.ID      `json:"account"`
		Address common.Address `json:"evm_address"`
		Balance struct {
			Balance   *hedera.Tinybar  `json:"balance"`
			Timestamp hedera.Timestamp `json:"timestamp"`
		} `json:"balance"`
		Nonce      *uint64          `json:"ethereum_nonce"`
		Created    hedera.Timestamp `json:"created_timestamp"`
		Delegation *common.Address  `json:"delegation_address"`
		Deleted    bool             `json:"deleted"`
		Signature  bool             `json:"receiver_sig_required"`
		Key        struct {
			Kind string `json:"_type"`
			Key  string `json:"key"`
		} `json:"key"`
		Transactions []*Transaction `json:"transactions"`
		Links        links          `json:"links"`
	}
	if err := json.UnmarshalDecode(d, &v); err != nil {
		return err
	}
	*a = Account{
		ID: v.ID, Address: v.Address, BalanceKnown: v.Balance.Balance != nil, BalanceTime: v.Balance.Timestamp, Nonce: v.Nonce, Created: v.Created,
		Delegation: v.Delegation, Deleted: v.Deleted, ReceiverSignature: v.Signature, Transactions: v.Transactions, next: v.Links.next, told: v.Address,
	}
	if a.BalanceKnown {
		a.Balance = *v.Balance.Balance
	}
	a.Address = cmp.Or(a.Address, a.ID.LongZero())
	if v.Key.Kind == "ED25519" || v.Key.Kind == "ECDSA_SECP256K1" {
		if public, err := hex.DecodeString(v.Key.Key); err == nil {
			a.PublicKey = public
		}
	}
	return nil
}

const accountLabel = "accounts/{idOrAliasOrEvmAddress}"

// Account returns the account or contract at an address as it is now, or
// ErrNotFound. The result may be shared and must not be changed.
func (c *Client) Account(ctx context.Context, address common.Address) (*Account, error) {
	return c.account(ctx, lowerHex(address), func(a *Account) bool { return has(a.ID, a.told, address) })
}

// has tells whether an entity can have the address that was asked for: that of its number, or the one that the answer told, if it told any.
func has(id hedera.ID, told, asked common.Address) bool {
	return !id.IsZero() && (told == (common.Address{}) || told == asked || id.LongZero() == asked)
}

// AccountByID is Account by entity id.
func (c *Client) AccountByID(ctx context.Context, id hedera.ID) (*Account, error) {
	return c.account(ctx, id.String(), func(a *Account) bool { return a.ID == id })
}

func (c *Client) account(ctx context.Context, of string, about func(*Account) bool) (*Account, error) {
	return getOf(ctx, c, accountLabel, "accounts/"+of+"?transactions=false", about)
}

// heard is a nonce, and when an answer last had it.
type heard struct {
	nonce uint64
	at    time.Time
}

// NotBefore returns the next nonce of a sender, of which an answer has just told one. One of several mirror nodes behind an
// address may lag, and a nonce never goes back: it is the highest that any answer told in the last minute. A lower one that is told for
// longer counts, since the higher one may have been wrong. On a development network a nonce may go back.
func (c *Client) NotBefore(address common.Address, nonce uint64) uint64 {
	if c.fetch.Generation() != 0 {
		return nonce
	}
	if known, ok := c.nonces.get(address); ok && known.nonce > nonce && time.Since(known.at) < apart {
		return known.nonce
	}
	c.nonces.put(address, heard{nonce, time.Now()}, aliasBytes)
	return nonce
}

// BalanceAt returns the balance of the account at an address, after everything up to and including the moment at.
// ErrNotFound: there was no account.
//
// A mirror node may know balances only at the times of its snapshots. The transfers
// between the snapshot and the moment are then added or taken away.
func (c *Client) BalanceAt(ctx context.Context, address common.Address, at hedera.Timestamp) (hedera.Tinybar, error) {
	path := "accounts/" + lowerHex(address) + "?timestamp=lte:" + at.String() + "&limit=" + decimal(uint64(c.config.PageSize)) + "&order=desc"
	account, err := getOf(ctx, c, accountLabel, path, func(a *Account) bool { return has(a.ID, a.told, address) && a.BalanceKnown })
	if err != nil {
		return 0, err
	}
	if account.Created.Compare(at) > 0 {
		return 0, ErrNotFound
	}
	known := account.BalanceTime
	switch {
	case known.IsZero() || known == at:
		return account.Balance, nil
	case known.Compare(at) > 0:
		delta, err := c.transferred(ctx, account.ID, at, known)
		return account.Balance - delta, err
	}
	delta, done := sumTransfers(account, known)
	if done || account.next == "" {
		return account.Balance + delta, nil
	}
	delta, err = c.transferred(ctx, account.ID, known, at)
	return account.Balance + delta, err
}

// sumTransfers adds up the transfers of a page of newest transactions that came
// after a moment; done tells that the page reaches back to it.
func sumTransfers(a *Account, after hedera.Timestamp) (sum hedera.Tinybar, done bool) {
	for _, t := range a.Transactions {
		if t.Timestamp.Compare(after) <= 0 {
			return sum, true
		}
		sum += t.Transferred(a.ID)
	}
	return sum, false
}

// transferred adds up the transfers of an account after one moment, up to and
// including another.
func (c *Client) transferred(ctx context.Context, id hedera.ID, after, until hedera.Timestamp) (sum hedera.Tinybar, err error) {
	for t, err := range c.transactionsAt(ctx, id, "gt:"+after.String(), "lte:"+until.String()) {
		if err != nil {
			return 0, err
		}
		sum += t.Transferred(id)
	}
	return sum, nil
}

// reservedEntities is the highest number of the entities that exist from a
// network's start. None of them has an alias.
const reservedEntities = 1000

// Alias returns the address that Ethereum clients know: the alias of a long-zero address where there is one. An
// entity without an alias, a token for instance, keeps its long-zero address. Any other address is an alias
// already.
func (c *Client) Alias(ctx context.Context, address common.Address) (common.Address, error) {
	id, ok := hedera.FromLongZero(address)
	if !ok || id.Num <= reservedEntities {
		return address, nil
	}
	if alias, ok := c.aliases.get(id); ok {
		return alias, nil
	}
	if alias := stored[common.Address](ctx, c, kindAlias, id.String()); alias != nil {
		c.aliases.put(id, *alias, aliasBytes)
		return *alias, nil
	}
	account, err := c.AccountByID(ctx, id)
	switch {
	case err == nil:
		c.keepAlias(id, account.Address)
		return account.Address, nil
	case !errors.Is(err, ErrNotFound):
		return common.Address{}, err
	}
	isToken, err := c.tokenExists(ctx, id)
	if err != nil {
		return common.Address{}, err
	}
	if isToken {
		c.keepAlias(id, address)
	}
	return address, nil
}

// LearnAlias keeps the alias of an entity that find knows, unless it is known already.
func (c *Client) LearnAlias(id hedera.ID, find func() (alias common.Address, ok bool)) {
	if id.Num <= reservedEntities {
		return
	}
	if _, known := c.aliases.get(id); known {
		return
	}
	if alias, ok := find(); ok {
		c.keepAlias(id, alias)
	}
}

// keepAlias keeps an alias, which never changes.
func (c *Client) keepAlias(id hedera.ID, alias common.Address) {
	c.aliases.put(id, alias, aliasBytes)
	store(c, kindAlias, id.String(), &alias)
}

// Transaction is a Hedera transaction of any kind.
type Transaction struct {
	ID        string           `json:"transaction_id"` // payer-seconds-nanos
	Name      string           `json:"name"`           // ETHEREUMTRANSACTION and so on
	Result    string           `json:"result"`         // a response code
	Timestamp hedera.Timestamp `json:"consensus_timestamp"`
	Entity    hedera.ID        `json:"entity_id"`
	Nonce     int64            `json:"nonce"` // 0 for what a client submitted
	Scheduled bool             `json:"scheduled"`
	Fee       hedera.Tinybar   `json:"charged_tx_fee"` // what the payer was charged
	Transfers []Transfer       `json:"transfers"`
}

// Transfer is a change of one account's balance.
type Transfer struct {
	Account hedera.ID      `json:"account"`
	Amount  hedera.Tinybar `json:"amount"`
}

// Transferred returns by how much the transaction changed an account's balance.
func (t *Transaction) Transferred(id hedera.ID) (sum hedera.Tinybar) {
	for _, transfer := range t.Transfers {
		if transfer.Account == id {
			sum += transfer.Amount
		}
	}
	return sum
}

func (c *Client) transactionList(path string) list[Transaction] {
	return list[Transaction]{
		label: "transactions", path: path, member: "transactions",
		maxPages: c.config.MaxAccountPages,
	}
}

// Transactions lists everything that a transaction id led to, in consensus order. The transaction itself has
// nonce 0; those that it caused come before and after it. An empty list is ErrNotFound.
func (c *Client) Transactions(ctx context.Context, id hedera.TransactionID) ([]*Transaction, error) {
	l := c.transactionList("transactions/" + id.Mirror())
	l.label, l.about = "transactions/{transactionId}", func(t *Transaction) bool { return t.ID == id.Mirror() }
	page, err := l.page(ctx, c, l.path)
	if err != nil {
		return nil, err
	}
	return page.items, nil
}

// PayerAt returns the account that paid for what reached consensus at a moment; ErrNotFound: nothing did.
func (c *Client) PayerAt(ctx context.Context, at hedera.Timestamp) (hedera.ID, error) {
	if id, ok := c.payers.get(at); ok {
		return id, nil
	}
	l := c.transactionList("transactions?timestamp=" + at.String() + "&limit=1")
	l.about = func(t *Transaction) bool { return t.Timestamp == at }
	page, err := l.page(ctx, c, l.path)
	if err != nil {
		return hedera.ID{}, err
	}
	if len(page.items) == 0 {
		return hedera.ID{}, ErrNotFound
	}
	payer, _, _ := strings.Cut(page.items[0].ID, "-")
	id, err := hedera.ParseID(payer)
	if err == nil {
		c.payers.put(at, id, aliasBytes)
	}
	return id, err
}

// TransactionsOf lists the transactions that changed an account's balance from a moment on, in consensus order.
func (c *Client) TransactionsOf(ctx context.Context, id hedera.ID, from hedera.Timestamp) iter.Seq2[*Transaction, error] {
	return c.transactionsAt(ctx, id, "gte:"+from.String())
}

// transactionsAt lists the transactions of an account within some bounds of time, in consensus order.
func (c *Client) transactionsAt(ctx context.Context, id hedera.ID, bounds ...string) iter.Seq2[*Transaction, error] {
	var q query
	q.add("account.id", id.String())
	for _, bound := range bounds {
		q.add("timestamp", bound)
	}
	q.page(c, Ascending)
	return c.transactionList("transactions"+q.String()).items(ctx, c)
}
