package upstream

import (
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
	AdminKey         *key      `json:"admin_key"`
	AutoRenewAccount id        `json:"auto_renew_account"`
	AutoRenewPeriod  number    `json:"auto_renew_period"`
	ContractID       id        `json:"contract_id"`
	Created          timestamp `json:"created_timestamp"`
	Deleted          bool      `json:"deleted"`
	EVMAddress       address   `json:"evm_address"`
	Expires          timestamp `json:"expiration_timestamp"`
	FileID           id        `json:"file_id"`
	MaxAuto          int32     `json:"max_automatic_token_associations"`
	Memo             string    `json:"memo"`
	Nonce            number    `json:"nonce"`
	Obtainer         id        `json:"obtainer_id"`
	Initcode         hexBytes  `json:"bytecode"`
	Runtime          hexBytes  `json:"runtime_bytecode"`
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
