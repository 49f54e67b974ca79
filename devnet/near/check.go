package near

import (
	"slices"

	"lockstep/internal/near"
)

// maxGas is what all calls of a transaction may be given.
const maxGas = 300_000_000_000_000

// check tells what a block has against a transaction, in nearcore's words; nil if nothing.
func (w *work) check(tx near.SignedTransaction) any {
	c := w.chain
	height, known := c.heights[tx.BlockHash]
	if !known || w.block.height > height+c.config.Validity {
		return "Expired"
	}
	if refusal := wellFormed(tx.Actions); refusal != nil {
		return object{"ActionsValidation": refusal}
	}
	signer := w.view(tx.Signer)
	if signer == nil {
		return object{"SignerDoesNotExist": object{"signer_id": tx.Signer}}
	}
	key, there := signer.keys[tx.PublicKey]
	if !there {
		return object{"InvalidAccessKeyError": object{"AccessKeyNotFound": object{"account_id": tx.Signer, "public_key": tx.PublicKey.String()}}}
	}
	if tx.Nonce <= key.Nonce {
		return object{"InvalidNonce": object{"tx_nonce": tx.Nonce, "ak_nonce": key.Nonce}}
	}
	if bound := w.block.height * nonceRange; tx.Nonce >= bound {
		return object{"NonceTooLarge": object{"tx_nonce": tx.Nonce, "upper_bound": bound}}
	}
	cost, _ := costOf(tx)
	if cost.Gt(&signer.amount) {
		return object{"NotEnoughBalance": object{"signer_id": tx.Signer, "balance": signer.amount.Dec(), "cost": cost.Dec()}}
	}
	if p, ok := key.Permission.(near.CallPermission); ok && p.Allowance != nil && cost.Gt(p.Allowance) {
		return object{"InvalidAccessKeyError": object{"NotEnoughAllowance": object{
			"account_id": tx.Signer, "public_key": tx.PublicKey.String(), "allowance": p.Allowance.Dec(), "cost": cost.Dec(),
		}}}
	}
	if refusal := permits(key.Permission, tx.Receiver, tx.Actions); refusal != nil {
		return object{"InvalidAccessKeyError": refusal}
	}
	return nil
}

// permits tells what an access key has against actions; nil if nothing.
func permits(permission near.Permission, receiver string, actions []near.Action) any {
	p, limited := permission.(near.CallPermission)
	if !limited {
		return nil
	}
	if len(actions) != 1 {
		return "RequiresFullAccess"
	}
	call, ok := actions[0].(near.FunctionCall)
	switch {
	case !ok:
		return "RequiresFullAccess"
	case !call.Deposit.IsZero():
		return "DepositWithFunctionCall"
	case receiver != p.Receiver:
		return object{"ReceiverMismatch": object{"tx_receiver": receiver, "ak_receiver": p.Receiver}}
	case len(p.Methods) > 0 && !slices.Contains(p.Methods, call.Method):
		return object{"MethodNameMismatch": object{"method_name": call.Method}}
	}
	return nil
}

// wellFormed tells what is wrong with a list of actions whatever the state is.
func wellFormed(actions []near.Action) any {
	gas, delegates := uint64(0), 0
	for i, action := range actions {
		switch a := action.(type) {
		case near.DeleteAccount:
			if i != len(actions)-1 {
				return "DeleteActionMustBeFinal"
			}
		case near.FunctionCall:
			if a.Gas == 0 {
				return "FunctionCallZeroAttachedGas"
			}
			gas = addGas(gas, a.Gas)
		case near.Delegate:
			if delegates++; delegates > 1 {
				return "DelegateActionMustBeOnlyOne"
			}
			if refusal := wellFormed(a.Actions); refusal != nil {
				return refusal
			}
		case near.Stake, near.DeployGlobalContract, near.UseGlobalContract:
			return object{"UnsupportedProtocolFeature": object{"protocol_feature": "not in the model", "version": protocolVersion}}
		}
	}
	if gas > maxGas {
		return object{"TotalPrepaidGasExceeded": object{"total_prepaid_gas": gas, "limit": uint64(maxGas)}}
	}
	return nil
}
