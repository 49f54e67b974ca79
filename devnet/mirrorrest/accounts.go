package mirrorrest

import (
	"encoding/base32"
	"encoding/hex"
	"iter"
	"maps"
	"strings"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// accountOf writes an account as the view shows it.
func accountOf(a state.Account, v *ledger.View) object {
	out := object{
		"account":                          a.ID.String(),
		"alias":                            aliasText(a.Alias),
		"auto_renew_period":                positive(a.AutoRenewPeriod),
		"balance":                          object{"balance": a.Balance, "timestamp": timeText(v.Time()), "tokens": tokenBalances(v, a.ID)},
		"created_timestamp":                timeText(a.Created),
		"decline_reward":                   a.DeclineReward,
		"delegation_address":               nil,
		"deleted":                          a.Deleted,
		"ethereum_nonce":                   a.Nonce,
		"evm_address":                      addressText(a.Address),
		"expiry_timestamp":                 timeText(a.Expires),
		"key":                              keyOf(a.Key),
		"max_automatic_token_associations": a.MaxAutoAssociations,
		"memo":                             a.Memo,
		"pending_reward":                   0,
		"receiver_sig_required":            a.ReceiverSigRequired,
		"stake_period_start":               nil,
		"staked_account_id":                idText(a.StakedAccount),
		"staked_node_id":                   nil,
	}
	if a.Delegation != (common.Address{}) {
		out["delegation_address"] = addressText(a.Delegation)
	}
	if a.StakedNode >= 0 {
		out["staked_node_id"], out["stake_period_start"] = a.StakedNode, timeText(a.StakePeriodStart)
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
func getAccount(r *request, q *query) (any, error) {
	times := q.timestamps()
	newest := *r // lists what is within a block, too, unlike the view of a moment
	r.view = r.asOf(times)
	a, err := r.accountArg()
	if err != nil {
		return nil, err
	}
	out := object{"transactions": []any{}, "links": links{}}
	if q.flag("transactions", true) {
		out = r.transactions(q, where(newest.records(&times, q.desc), func(rec *history.Record) bool { return concerns(rec, a.ID) }))
	}
	maps.Copy(out, accountOf(a, r.view))
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
func (r *request) accountArg() (state.Account, error) {
	text := r.args[0]
	if address, ok := parseAddress(text); ok {
		return found(r.view.AccountByAddress(address))
	}
	if num, ok := parseEntity(text); ok {
		return found(r.view.Account(hedera.Entity(num)))
	}
	alias, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(text[strings.LastIndexByte(text, '.')+1:])
	if err != nil || len(alias) == 0 {
		return state.Account{}, invalidParameter("idOrAliasOrEvmAddress")
	}
	id, ok := r.view.ResolveAlias(alias)
	if !ok {
		return state.Account{}, notFound()
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
func listAccounts(r *request, q *query) (any, error) {
	return list(r, q, "accounts", r.accounts(q), func(a state.Account) any {
		account := accountOf(a, r.view)
		if !q.flag("balance", true) {
			account["balance"] = nil
		}
		return account
	}, r.accountIDs()), nil
}

// listBalances answers balances. Where a real mirror node has a snapshot every
// quarter of an hour, this one knows the balance at any moment.
func listBalances(r *request, q *query) (any, error) {
	r.view = r.asOf(q.timestamps())
	out := list(r, q, "balances", r.accounts(q), func(a state.Account) any {
		return object{"account": a.ID.String(), "balance": a.Balance, "tokens": tokenBalances(r.view, a.ID)}
	}, r.accountIDs())
	out["timestamp"] = nil // before the beginning
	if _, known := r.view.Account(hedera.Entity(treasury)); known {
		out["timestamp"] = r.view.Time().String()
	}
	return out, nil
}

// treasury is the number of the account that exists as long as the ledger does.
const treasury = 2

func (r *request) accountIDs() column[state.Account] {
	return byID("account.id", r.party, func(a state.Account) hedera.ID { return a.ID })
}

// accounts yields the accounts that the filters of a list other than those on their ids leave.
func (r *request) accounts(q *query) iter.Seq[state.Account] {
	ids, balances := q.bounds("account.id", r.party), q.bounds("account.balance", parseCount)
	low, high := ids.span()
	wanted, byKey := q.last("account.publickey")
	return where(r.view.Accounts(low, high, q.desc), func(a state.Account) bool {
		return balances.allows(int64(a.Balance)) && (!byKey || isKey(a.Key, wanted))
	})
}

// isKey tells whether a key is the one that a parameter names.
func isKey(key *hapi.Key, wanted string) bool {
	k := keyOf(key)
	return k != nil && k.Key == publicKey(wanted)
}

// ed25519Prefix starts the DER form of an Ed25519 public key.
const ed25519Prefix = "302a300506032b6570032100"

// publicKey is the hex of a key as keys are written, from raw hex or DER.
func publicKey(text string) string {
	b, _ := parseHex(text)
	return strings.TrimPrefix(hex.EncodeToString(b), ed25519Prefix)
}
