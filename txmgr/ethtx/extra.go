package ethtx

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/internal/eth"
	"lockstep/txmgr"
)

// Bounds of what a transaction may carry besides its data.
const (
	maxAccesses       = 1000
	maxAuthorizations = 100
)

// Check refuses an Extra that no transaction can have, and gas that is too little for any with this data.
func (f Form) Check(call txmgr.Call) error {
	to, e := call.To, call.Extra
	extra, err := read(e)
	if err != nil {
		return err
	}
	if err := enough(call.Gas, call.Data, to == "", extra); call.Gas != 0 && err != nil {
		return wrong("gas", err.Error())
	}
	if len(extra.authorizations) > 0 {
		switch {
		case to == "":
			return wrong("authorizationList", "its transaction needs a receiver (EIP-7702)")
		case e.OnePrice:
			return wrong("gasPrice", "a transaction with authorizations has maxFeePerGas and maxPriorityFeePerGas (EIP-7702)")
		}
		for _, a := range extra.authorizations {
			if _, err := a.Authority(); err != nil {
				return wrong("authorizationList", "a signature is not valid: "+err.Error())
			}
			if !a.ChainID.IsZero() && a.ChainID.ToBig().Uint64() != f.ChainID {
				return wrong("authorizationList", "signed for chain "+a.ChainID.Dec())
			}
		}
	}
	return nil
}

// enough refuses gas that does not pay for what a transaction costs before it runs. The floor of EIP-7623 is left out: not every chain has it.
func enough(gas uint64, data []byte, creation bool, e extra) error {
	least, _ := eth.DataGas(data, creation)
	least += accessGas(e.accesses) + eth.AuthorizationGas*uint64(len(e.authorizations))
	if gas < least {
		return fmt.Errorf("want at least %d, which its data alone costs", least)
	}
	return nil
}

// accessGas is what the entries of an access list cost (EIP-2930).
func accessGas(list types.AccessList) uint64 {
	return 2_400*uint64(len(list)) + 1_900*uint64(list.StorageKeys())
}

// extra is a txmgr.Extra that was read.
type extra struct {
	accesses       types.AccessList
	authorizations []types.SetCodeAuthorization
}

func read(e txmgr.Extra) (out extra, err error) {
	if len(e.AccessList) > 0 {
		if err := json.Unmarshal(e.AccessList, &out.accesses); err != nil {
			return out, wrong("accessList", `want a list of {"address":"0x…","storageKeys":["0x…"]}`)
		}
	}
	if len(e.Authorizations) > 0 {
		if err := json.Unmarshal(e.Authorizations, &out.authorizations); err != nil || len(out.authorizations) == 0 {
			return out, wrong("authorizationList", `want a list of {"chainId":"0x…","address":"0x…","nonce":"0x…","yParity":"0x…","r":"0x…","s":"0x…"}`)
		}
	}
	keys := 0
	for _, one := range out.accesses {
		keys += 1 + len(one.StorageKeys)
	}
	if keys > maxAccesses || len(out.authorizations) > maxAuthorizations {
		return out, wrong("accessList", "longer than 1,000 addresses and slots, or more than 100 authorizations")
	}
	return out, nil
}

var errForm = errors.New("a transaction needs gas and fees")
