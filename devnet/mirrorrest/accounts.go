package mirrorrest

import (
	"encoding/base32"
	"encoding/hex"
	"iter"
	"strings"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger"
	"lockstep/internal/hedera"
)

type accountJSON struct {
	Account                       string       `json:"account"`
	Alias                         *string      `json:"alias"`
	AutoRenewPeriod               *int64       `json:"auto_renew_period"`
	Balance                       *balanceJSON `json:"balance"`
	CreatedTimestamp              *string      `json:"created_timestamp"`
	DeclineReward                 bool         `json:"decline_reward"`
	DelegationAddress             *string      `json:"delegation_address"`
	Deleted                       bool         `json:"deleted"`
	EthereumNonce                 int64        `json:"ethereum_nonce"`
	EVMAddress                    string       `json:"evm_address"`
	ExpiryTimestamp               *string      `json:"expiry_timestamp"`
	Key                           *keyJSON     `json:"key"`
	MaxAutomaticTokenAssociations int32        `json:"max_automatic_token_associations"`
	Memo                          string       `json:"memo"`
	PendingReward                 int64        `json:"pending_reward"`
	ReceiverSigRequired           bool         `json:"receiver_sig_required"`
	StakePeriodStart              *string      `json:"stake_period_start"`
	StakedAccountID               *string      `json:"staked_account_id"`
	StakedNodeID                  *int64       `json:"staked_node_id"`
}

// A balanceJSON is what an account has at a time.
type balanceJSON struct {
	Balance   hedera.Tinybar     `json:"balance"`
	Timestamp *string            `json:"timestamp"`
	Tokens    []tokenBalanceJSON `json:"tokens"`
}

type accountWithTransactionsJSON struct {
	accountJSON
	Transactions []transactionJSON `json:"transactions"`
	paged
}

type accountsJSON struct {
	Accounts []accountJSON `json:"accounts"`
	paged
}

// accountOf writes an account as the view shows it.
func accountOf(a ledger.Account, v *ledger.View) accountJSON {
	out := accountJSON{
		Account:                       a.ID.String(),
		Alias:                         aliasText(a.Alias),
		AutoRenewPeriod:               positive(a.AutoRenewPeriod),
		Balance:                       &balanceJSON{Balance: a.Balance, Timestamp: timeText(v.Time()), Tokens: tokenBalances(v, a.ID)},
		CreatedTimestamp:              timeText(a.Created),
		DeclineReward:                 a.DeclineReward,
		Deleted:                       a.Deleted,
		EthereumNonce:                 a.Nonce,
		EVMAddress:                    addressText(a.Address),
		ExpiryTimestamp:               timeText(a.Expires),
		Key:                           keyOf(a.Key),
		MaxAutomaticTokenAssociations: a.MaxAutoAssociations,
		Memo:                          a.Memo,
		ReceiverSigRequired:           a.ReceiverSigRequired,
		StakedAccountID:               idText(a.StakedAccount),
	}
	if a.Delegation != (common.Address{}) {
		out.DelegationAddress = ptr(addressText(a.Delegation))
	}
	if a.StakedNode >= 0 {
		out.StakedNodeID, out.StakePeriodStart = &a.StakedNode, timeText(a.StakePeriodStart)
	}
	return out
}

func positive(n int64) *int64 {
	if n <= 0 {
		return nil
	}
	return &n
}

// getAccount answers accounts/{idOrAliasOrEvmAddress}.
func getAccount(r *request) (any, error) {
	q, err := r.query(params{
		"timestamp":       isTime,
		"transactions":    isFlag,
		"transactiontype": isTransactionType,
	}, descending)
	if err != nil {
		return nil, err
	}
	times := q.timestamps()
	r.view = r.asOf(times)
	a, err := r.accountArg()
	if err != nil {
		return nil, err
	}
	out := accountWithTransactionsJSON{accountJSON: accountOf(a, r.view), Transactions: []transactionJSON{}}
	if q.flag("transactions", true) {
		records := r.index.party(r.view, a.ID.Num)
		out.Transactions, out.Links = r.transactions(q, times, ordered(records, &times, q.desc))
	}
	return out, nil
}

// asOf is the view at the end of a range of time: what a historical question
// about an entity is about.
func (r *request) asOf(times bounds) *ledger.View {
	_, end := times.span()
	return r.view.At(fromNanos(end))
}

// accountArg finds the account or contract that the path names, by its id, EVM
// address or alias.
func (r *request) accountArg() (ledger.Account, error) {
	text := r.args[0]
	if address, ok := parseAddress(text); ok {
		return found(r.view.AccountByAddress(address))
	}
	if num, ok := parseEntity(text); ok {
		return found(r.view.Account(hedera.Entity(num)))
	}
	alias, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(text[strings.LastIndexByte(text, '.')+1:])
	if err != nil || len(alias) == 0 {
		return ledger.Account{}, invalidParameter("idOrAliasOrEvmAddress")
	}
	id, ok := r.view.ResolveAlias(alias)
	if !ok {
		return ledger.Account{}, notFound()
	}
	return found(r.view.Account(id))
}

// found turns the second result of a look-up into a 404.
func found[T any](v T, ok bool) (T, error) {
	if !ok {
		return v, notFound()
	}
	return v, nil
}

// party is the number of the account or contract that an id or address names.
func (r *request) party(text string) (int64, bool) {
	if address, ok := parseAddress(text); ok {
		id, known := r.view.Resolve(address)
		return id.Num, known
	}
	return parseEntity(text)
}

// contractArg is the number of the contract that the path names, or absent when
// nothing has that address.
func (r *request) contractArg() (int64, error) {
	text := r.args[0]
	if !isParty(eq, text) {
		return 0, invalidParameter("contractId")
	}
	if num, ok := r.party(text); ok {
		return num, nil
	}
	if num, ok := tokenNumber(text); ok { // tokens have events, too
		return num, nil
	}
	return absent, nil
}

// listAccounts answers accounts.
func listAccounts(r *request) (any, error) {
	q, err := r.query(params{
		"account.balance":   isCount,
		"account.id":        isParty,
		"account.publickey": isPublicKey,
		"balance":           isFlag,
	}, ascending)
	if err != nil {
		return nil, err
	}
	out := accountsJSON{Accounts: []accountJSON{}}
	ids := q.bounds("account.id", r.party)
	var last int64
	for a := range r.accounts(q, &ids) {
		account := accountOf(a, r.view)
		if !q.flag("balance", true) {
			account.Balance = nil
		}
		out.Accounts, last = append(out.Accounts, account), a.ID.Num
		if len(out.Accounts) == q.limit {
			break
		}
	}
	full := len(out.Accounts) == q.limit && !ids.ends(last, q.desc)
	out.Links = q.next(r.self(), full, cursor{name: "account.id", value: hedera.Entity(last).String()})
	return out, nil
}

// accounts yields the accounts that the filters of a list leave.
func (r *request) accounts(q *query, ids *bounds) iter.Seq[ledger.Account] {
	low, high := ids.span()
	balances := q.bounds("account.balance", parseCount)
	wanted, byKey := q.last("account.publickey")
	key := publicKey(wanted)
	return func(yield func(ledger.Account) bool) {
		for a := range r.view.Accounts(low, high, q.desc) {
			if !ids.allows(a.ID.Num) || !balances.allows(int64(a.Balance)) {
				continue
			}
			if k := keyOf(a.Key); byKey && (k == nil || k.Key != key) {
				continue
			}
			if !yield(a) {
				return
			}
		}
	}
}

// ed25519Prefix starts the DER form of an Ed25519 public key.
const ed25519Prefix = "302a300506032b6570032100"

// publicKey is the hex of a key as keys are written, from raw hex or DER.
func publicKey(text string) string {
	b, _ := parseHex(text)
	return strings.TrimPrefix(hex.EncodeToString(b), ed25519Prefix)
}
