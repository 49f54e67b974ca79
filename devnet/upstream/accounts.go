package upstream

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"golang.org/x/sync/errgroup"

	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

type account struct {
	Account             id                      `json:"account"`
	Alias               alias                   `json:"alias"`
	AutoRenewPeriod     number                  `json:"auto_renew_period"`
	Balance             struct{ Balance int64 } `json:"balance"`
	Created             timestamp               `json:"created_timestamp"`
	DeclineReward       bool                    `json:"decline_reward"`
	Delegation          address                 `json:"delegation_address"`
	Deleted             bool                    `json:"deleted"`
	Nonce               number                  `json:"ethereum_nonce"`
	EVMAddress          address                 `json:"evm_address"`
	Expires             timestamp               `json:"expiry_timestamp"`
	Key                 *key                    `json:"key"`
	MaxAutoAssociations int32                   `json:"max_automatic_token_associations"`
	Memo                string                  `json:"memo"`
	ReceiverSigRequired bool                    `json:"receiver_sig_required"`
	StakedAccount       id                      `json:"staked_account_id"`
	StakedNode          *int64                  `json:"staked_node_id"`
	StakePeriodStart    timestamp               `json:"stake_period_start"`
}

type contract struct {
	AdminKey         *key     `json:"admin_key"`
	AutoRenewAccount id       `json:"auto_renew_account"`
	ContractID       id       `json:"contract_id"`
	Deleted          bool     `json:"deleted"`
	EVMAddress       address  `json:"evm_address"`
	FileID           id       `json:"file_id"`
	MaxAuto          int32    `json:"max_automatic_token_associations"`
	Memo             string   `json:"memo"`
	Nonce            number   `json:"nonce"`
	Obtainer         id       `json:"obtainer_id"`
	Initcode         hexBytes `json:"bytecode"`
	Runtime          hexBytes `json:"runtime_bytecode"`
}

// Account implements [state.Upstream].
func (m *Mirror) Account(name string) (*state.Account, error) {
	var (
		a         account
		c         contract
		isAccount bool
		isCode    bool
		group     errgroup.Group
	)
	group.Go(func() (err error) {
		a, isAccount, err = read[account](m, "accounts/"+name+"?transactions=false&timestamp=lte:"+m.at)
		return err
	})
	if mayBeContract(name) {
		group.Go(func() (err error) {
			c, isCode, err = read[contract](m, "contracts/"+name+"?timestamp=lte:"+m.at)
			return err
		})
	}
	if err := group.Wait(); err != nil || !isAccount && !isCode {
		return nil, err
	}
	if !isAccount { // a mirror node that has contracts apart
		var err error
		if a, _, err = read[account](m, "accounts/"+c.ContractID.String()+"?transactions=false&timestamp=lte:"+m.at); err != nil {
			return nil, err
		}
	}
	out, err := a.value()
	if err != nil || !isCode {
		return out, m.wrap(name, err)
	}
	return out, m.wrap(name, c.describe(out))
}

// mayBeContract: a key is no contract's alias.
func mayBeContract(name string) bool {
	_, err := hedera.ParseID(name)
	return err == nil || common.IsHexAddress(name)
}

func (m *Mirror) wrap(name string, err error) error {
	if err == nil {
		return nil
	}
	return m.failed("accounts/"+name, err)
}

func (a *account) value() (*state.Account, error) {
	owner, err := a.Key.value()
	if err != nil {
		return nil, err
	}
	out := &state.Account{ID: a.Account.ID, Balance: hedera.Tinybar(a.Balance.Balance), Nonce: int64(a.Nonce), Description: state.Description{
		Address: common.Address(a.EVMAddress), Alias: a.Alias, Key: owner, Memo: a.Memo, Created: a.Created.Timestamp, Expires: a.Expires.Timestamp,
		AutoRenewPeriod: int64(a.AutoRenewPeriod), MaxAutoAssociations: a.MaxAutoAssociations,
		ReceiverSigRequired: a.ReceiverSigRequired, DeclineReward: a.DeclineReward,
		StakedAccount: a.StakedAccount.ID, StakedNode: -1, Deleted: a.Deleted, Delegation: common.Address(a.Delegation),
	}}
	if a.EVMAddress == (address{}) {
		out.Address = a.Account.LongZero()
	}
	if a.StakedNode != nil {
		out.StakedNode, out.StakePeriodStart = *a.StakedNode, a.StakePeriodStart.Timestamp
	}
	if _, longZero := hedera.FromLongZero(out.Address); owner == nil && !longZero {
		out.Key = &hapi.Key{Key: &hapi.Key_KeyList{KeyList: &hapi.KeyList{}}} // a hollow account's
	}
	return out, nil
}

// describe makes a contract of an account.
func (c *contract) describe(a *state.Account) (err error) {
	if a.Key, err = c.AdminKey.value(); err != nil {
		return err
	}
	a.ID, a.Nonce, a.Memo, a.Deleted, a.Obtainer = c.ContractID.ID, int64(c.Nonce), c.Memo, c.Deleted, c.Obtainer.ID
	a.AutoRenewAccount, a.MaxAutoAssociations = c.AutoRenewAccount.ID, c.MaxAuto
	if c.EVMAddress != (address{}) {
		a.Address = common.Address(c.EVMAddress)
	}
	a.Contract = &state.Contract{Initcode: c.Initcode, Runtime: c.Runtime, CodeHash: crypto.Keccak256Hash(c.Runtime), File: c.FileID.ID}
	return nil
}

// Slot implements [state.Upstream].
func (m *Mirror) Slot(contract hedera.ID, key common.Hash) (common.Hash, error) {
	type state struct {
		State []struct {
			Slot, Value common.Hash
		}
	}
	found, _, err := read[state](m, "contracts/"+contract.String()+"/state?slot="+key.Hex()+"&timestamp="+m.at)
	for _, s := range found.State {
		if s.Slot == key {
			return s.Value, err
		}
	}
	return common.Hash{}, err
}

type token struct {
	AdminKey         *key        `json:"admin_key"`
	AutoRenewAccount id          `json:"auto_renew_account"`
	AutoRenewPeriod  number      `json:"auto_renew_period"`
	Created          timestamp   `json:"created_timestamp"`
	Fees             customFees  `json:"custom_fees"`
	Decimals         number      `json:"decimals"`
	Deleted          bool        `json:"deleted"`
	Expires          number      `json:"expiry_timestamp"`
	FeeScheduleKey   *key        `json:"fee_schedule_key"`
	FreezeDefault    bool        `json:"freeze_default"`
	FreezeKey        *key        `json:"freeze_key"`
	Initial          number      `json:"initial_supply"`
	KYCKey           *key        `json:"kyc_key"`
	MaxSupply        number      `json:"max_supply"`
	Memo             string      `json:"memo"`
	Metadata         base64Bytes `json:"metadata"`
	MetadataKey      *key        `json:"metadata_key"`
	Modified         timestamp   `json:"modified_timestamp"`
	Name             string      `json:"name"`
	PauseKey         *key        `json:"pause_key"`
	PauseStatus      string      `json:"pause_status"`
	SupplyKey        *key        `json:"supply_key"`
	Symbol           string      `json:"symbol"`
	ID               id          `json:"token_id"`
	Supply           number      `json:"total_supply"`
	Treasury         id          `json:"treasury_account_id"`
	Type             string      `json:"type"`
	WipeKey          *key        `json:"wipe_key"`
}

type customFees struct {
	Since timestamp `json:"created_timestamp"`
	Fixed []struct {
		feeBase
		Amount int64 `json:"amount"`
	} `json:"fixed_fees"`
	Fractional []struct {
		feeBase
		Amount  fraction `json:"amount"`
		Maximum number   `json:"maximum"`
		Minimum int64    `json:"minimum"`
		Net     bool     `json:"net_of_transfers"`
	} `json:"fractional_fees"`
	Royalties []struct {
		feeBase
		Amount   fraction `json:"amount"`
		Fallback *struct {
			Amount int64 `json:"amount"`
			Token  id    `json:"denominating_token_id"`
		} `json:"fallback_fee"`
	} `json:"royalty_fees"`
}

type feeBase struct {
	Exempt    bool `json:"all_collectors_are_exempt"`
	Collector id   `json:"collector_account_id"`
	Token     id   `json:"denominating_token_id"`
}

type fraction struct{ Numerator, Denominator int64 }

func (f fraction) value() *hapi.Fraction {
	return &hapi.Fraction{Numerator: f.Numerator, Denominator: f.Denominator}
}

func (f feeBase) fee() *hapi.CustomFee {
	return &hapi.CustomFee{FeeCollectorAccountId: accountOf(f.Collector), AllCollectorsAreExempt: f.Exempt}
}

func (c *customFees) value() (all []*hapi.CustomFee) {
	for _, f := range c.Fixed {
		fee := f.fee()
		fee.Fee = &hapi.CustomFee_FixedFee{FixedFee: &hapi.FixedFee{Amount: f.Amount, DenominatingTokenId: tokenOf(f.Token)}}
		all = append(all, fee)
	}
	for _, f := range c.Fractional {
		fee := f.fee()
		fee.Fee = &hapi.CustomFee_FractionalFee{FractionalFee: &hapi.FractionalFee{
			FractionalAmount: f.Amount.value(), MinimumAmount: f.Minimum, MaximumAmount: int64(f.Maximum), NetOfTransfers: f.Net,
		}}
		all = append(all, fee)
	}
	for _, f := range c.Royalties {
		royalty := &hapi.RoyaltyFee{ExchangeValueFraction: f.Amount.value()}
		if f.Fallback != nil {
			royalty.FallbackFee = &hapi.FixedFee{Amount: f.Fallback.Amount, DenominatingTokenId: tokenOf(f.Fallback.Token)}
		}
		fee := f.fee()
		fee.Fee = &hapi.CustomFee_RoyaltyFee{RoyaltyFee: royalty}
		all = append(all, fee)
	}
	return all
}

// Token implements [state.Upstream].
func (m *Mirror) Token(id hedera.ID) (*state.Token, error) {
	path := "tokens/" + id.String()
	t, found, err := read[token](m, path+"?timestamp=lte:"+m.at)
	if err != nil || !found {
		return nil, err
	}
	out, err := t.value()
	if err != nil {
		return nil, m.failed(path, err)
	}
	if !out.NonFungible {
		return out, nil
	}
	newest, _, err := read[nfts](m, path+"/nfts?limit=1&order=desc")
	for _, n := range newest.NFTs {
		out.LastSerial = n.Serial
	}
	return out, err
}

func (t *token) value() (*state.Token, error) {
	out := &state.Token{
		ID: t.ID.ID, Name: t.Name, Symbol: t.Symbol, Memo: t.Memo, Metadata: t.Metadata, NonFungible: t.Type == "NON_FUNGIBLE_UNIQUE",
		Decimals: uint32(t.Decimals), Supply: int64(t.Supply), Initial: int64(t.Initial), MaxSupply: int64(t.MaxSupply), Treasury: t.Treasury.ID,
		FreezeDefault: t.FreezeDefault, Paused: t.PauseStatus == "PAUSED", Deleted: t.Deleted,
		Fees: t.Fees.value(), FeesSince: t.Fees.Since.Timestamp, AutoRenewAccount: t.AutoRenewAccount.ID, AutoRenewPeriod: int64(t.AutoRenewPeriod),
		Created: t.Created.Timestamp, Modified: t.Modified.Timestamp, Expires: hedera.FromNanos(int64(t.Expires)),
	}
	k := &out.Keys
	for _, given := range []struct {
		from *key
		to   **hapi.Key
	}{
		{t.AdminKey, &k.Admin},
		{t.KYCKey, &k.KYC},
		{t.FreezeKey, &k.Freeze},
		{t.WipeKey, &k.Wipe},
		{t.SupplyKey, &k.Supply},
		{t.FeeScheduleKey, &k.FeeSchedule},
		{t.PauseKey, &k.Pause},
		{t.MetadataKey, &k.Metadata},
	} {
		var err error
		if *given.to, err = given.from.value(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

type relation struct {
	Automatic bool      `json:"automatic_association"`
	Balance   int64     `json:"balance"`
	Created   timestamp `json:"created_timestamp"`
	Freeze    string    `json:"freeze_status"`
	KYC       string    `json:"kyc_status"`
	Token     id        `json:"token_id"`
}

type relations struct {
	Tokens []relation
	Links  struct{ Next string }
}

func (r *relation) value(account hedera.ID) state.Relation {
	return state.Relation{
		Account: account, Token: r.Token.ID, Balance: r.Balance, Frozen: r.Freeze == "FROZEN", KYC: r.KYC != "REVOKED",
		Automatic: r.Automatic, Created: r.Created.Timestamp,
	}
}

// Relation implements [state.Upstream].
func (m *Mirror) Relation(account, token hedera.ID) (*state.Relation, error) {
	page, _, err := read[relations](m, "accounts/"+account.String()+"/tokens?token.id="+token.String())
	for _, r := range page.Tokens {
		if r.Token.ID == token {
			out := r.value(account)
			return &out, err
		}
	}
	return nil, err
}

const (
	pageSize = 100
	maxPages = 20 // of one account's relations
)

// Relations implements [state.Upstream].
func (m *Mirror) Relations(account hedera.ID) (all []state.Relation, _ error) {
	path := "accounts/" + account.String() + "/tokens"
	more := ""
	for range maxPages {
		page, _, err := read[relations](m, path+"?limit="+strconv.Itoa(pageSize)+more)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Tokens {
			all = append(all, r.value(account))
		}
		if page.Links.Next == "" || len(page.Tokens) == 0 {
			return all, nil
		}
		more = "&token.id=gt:" + page.Tokens[len(page.Tokens)-1].Token.String()
	}
	return nil, m.failed(path, fmt.Errorf("the account has more than %d tokens", pageSize*maxPages))
}

type nft struct {
	Account  id          `json:"account_id"`
	Created  timestamp   `json:"created_timestamp"`
	Deleted  bool        `json:"deleted"`
	Metadata base64Bytes `json:"metadata"`
	Modified timestamp   `json:"modified_timestamp"`
	Serial   int64       `json:"serial_number"`
	Spender  id          `json:"spender"`
}

type nfts struct{ NFTs []nft }

// NFT implements [state.Upstream].
func (m *Mirror) NFT(token hedera.ID, serial int64) (*state.NFT, error) {
	if serial <= 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	n, found, err := read[nft](m, "tokens/"+token.String()+"/nfts/"+strconv.FormatInt(serial, 10))
	if err != nil || !found {
		return nil, err
	}
	return &state.NFT{
		Token: token, Serial: n.Serial, Owner: n.Account.ID, Spender: n.Spender.ID, Metadata: n.Metadata,
		Created: n.Created.Timestamp, Modified: n.Modified.Timestamp, Deleted: n.Deleted,
	}, nil
}

type allowances struct {
	Allowances []struct {
		Amount   int64
		Granted  int64 `json:"amount_granted"`
		Approved bool  `json:"approved_for_all"`
		Spender  id    `json:"spender"`
		Token    id    `json:"token_id"`
		Since    struct {
			From timestamp
		} `json:"timestamp"`
	}
}

// Allowance implements [state.Upstream].
func (m *Mirror) Allowance(owner, token, spender hedera.ID) (*state.Allowance, error) {
	path := "accounts/" + owner.String() + "/allowances/crypto?spender.id=" + spender.String()
	if !token.IsZero() {
		path = strings.Replace(path, "crypto", "tokens", 1) + "&token.id=" + url.QueryEscape(token.String())
	}
	page, _, err := read[allowances](m, path)
	for _, a := range page.Allowances {
		if a.Spender.ID == spender && a.Token.ID == token && a.Amount > 0 {
			return &state.Allowance{Owner: owner, Spender: spender, Token: token, Granted: a.Granted, Amount: a.Amount, Since: a.Since.From.Timestamp}, err
		}
	}
	return nil, err
}

// NFTAllowance implements [state.Upstream].
func (m *Mirror) NFTAllowance(owner, token, spender hedera.ID) (*state.NFTAllowance, error) {
	page, _, err := read[allowances](m, "accounts/"+owner.String()+"/allowances/nfts?account.id="+spender.String()+"&token.id="+token.String())
	for _, a := range page.Allowances {
		if a.Spender.ID == spender && a.Token.ID == token && a.Approved {
			return &state.NFTAllowance{Owner: owner, Spender: spender, Token: token, Approved: true, Since: a.Since.From.Timestamp}, err
		}
	}
	return nil, err
}
