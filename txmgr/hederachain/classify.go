package hederachain

import (
	"errors"

	"lockstep/consensus"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/txmgr"
)

// classes are the meanings of the statuses with which a node refuses a transaction at its
// precheck. One that is not here is ambiguous.
var classes = map[hedera.Status]txmgr.Class{
	// About the node: another one may take it, or this one later.
	hapi.ResponseCodeEnum_BUSY:                             txmgr.ClassPoolPolicy,
	hapi.ResponseCodeEnum_PLATFORM_NOT_ACTIVE:              txmgr.ClassPoolPolicy,
	hapi.ResponseCodeEnum_PLATFORM_TRANSACTION_NOT_CREATED: txmgr.ClassPoolPolicy,
	hapi.ResponseCodeEnum_CREATING_SYSTEM_ENTITIES:         txmgr.ClassPoolPolicy,
	hapi.ResponseCodeEnum_WAITING_FOR_LEDGER_ID:            txmgr.ClassPoolPolicy,
	hapi.ResponseCodeEnum_INVALID_NODE_ACCOUNT:             txmgr.ClassPoolPolicy,
	hapi.ResponseCodeEnum_THROTTLED_AT_CONSENSUS:           txmgr.ClassPoolPolicy,
	hapi.ResponseCodeEnum_CONSENSUS_GAS_EXHAUSTED:          txmgr.ClassPoolPolicy,
	// About the id: its time has not come, or is over, which the consensus clock must prove.
	hapi.ResponseCodeEnum_INVALID_TRANSACTION_START: txmgr.ClassPoolPolicy,
	hapi.ResponseCodeEnum_TRANSACTION_EXPIRED:       txmgr.ClassPoolPolicy,
	// About money: the operator's or the signer's.
	hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE:             txmgr.ClassFunds,
	hapi.ResponseCodeEnum_INSUFFICIENT_ACCOUNT_BALANCE:           txmgr.ClassFunds,
	hapi.ResponseCodeEnum_INSUFFICIENT_BALANCES_FOR_STORAGE_RENT: txmgr.ClassFunds,
	hapi.ResponseCodeEnum_INSUFFICIENT_BALANCES_FOR_RENEWAL_FEES: txmgr.ClassFunds,
	hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE:                    txmgr.ClassFeeTooLow,
	hapi.ResponseCodeEnum_WRONG_NONCE:                            txmgr.ClassNonceUsed,
	hapi.ResponseCodeEnum_PAYER_ACCOUNT_NOT_FOUND:                txmgr.ClassPoolPolicy, // the operator's settings
	hapi.ResponseCodeEnum_INVALID_SIGNATURE:                      txmgr.ClassPoolPolicy, // the operator's key
	hapi.ResponseCodeEnum_INVALID_PAYER_SIGNATURE:                txmgr.ClassPoolPolicy,
	hapi.ResponseCodeEnum_PAYER_ACCOUNT_DELETED:                  txmgr.ClassPoolPolicy,
	hapi.ResponseCodeEnum_NOT_SUPPORTED:                          txmgr.ClassPoolPolicy,
	// About the transaction: no node can ever execute it.
	hapi.ResponseCodeEnum_INVALID_ETHEREUM_TRANSACTION: txmgr.ClassFatal,
	hapi.ResponseCodeEnum_WRONG_CHAIN_ID:               txmgr.ClassFatal,
	hapi.ResponseCodeEnum_ACCESS_LIST_UNSUPPORTED:      txmgr.ClassFatal,
	hapi.ResponseCodeEnum_INSUFFICIENT_GAS:             txmgr.ClassFatal, // at the precheck: below the intrinsic gas
	hapi.ResponseCodeEnum_MAX_GAS_LIMIT_EXCEEDED:       txmgr.ClassFatal,
	hapi.ResponseCodeEnum_TRANSACTION_OVERSIZE:         txmgr.ClassFatal,
}

// classify gives a node's answer to an offer its class; nil is "taken". again: the transaction
// was offered before.
func classify(node hedera.ID, err error, again bool) *txmgr.SendError {
	if err == nil {
		return nil
	}
	answer := &txmgr.SendError{Class: txmgr.ClassAmbiguous, Endpoint: "node " + node.String(), Text: err.Error()}
	var refused *consensus.StatusError
	var duplicate *consensus.DuplicateError
	var sent *consensus.SentError
	var unsent *consensus.NotSentError
	switch {
	case errors.As(err, &duplicate):
		// Of an id that nobody offered before, it is somebody else's: its record will tell.
		if again {
			answer.Class = txmgr.ClassKnown
		}
	case errors.As(err, &sent):
		answer.Class = txmgr.ClassTransport
	case errors.As(err, &unsent):
		answer.Class = txmgr.ClassNotSent
	case errors.As(err, &refused):
		answer.Text = refused.Status.String()
		if class, known := classes[refused.Status]; known {
			answer.Class = class
		}
	}
	return answer
}

// never are the receipt statuses of transactions that reached consensus and were not executed. Their id is used up.
var never = func() map[hedera.Status]bool {
	set := map[hedera.Status]bool{
		hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE:   true,
		hapi.ResponseCodeEnum_INSUFFICIENT_ACCOUNT_BALANCE: true,
		hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE:          true,
		hapi.ResponseCodeEnum_WRONG_CHAIN_ID:               true,
		hapi.ResponseCodeEnum_NEGATIVE_ALLOWANCE_AMOUNT:    true,
	}
	for _, name := range hedera.NeverExecuted() {
		if status, ok := hedera.ParseStatus(name); ok {
			set[status] = true
		}
	}
	return set
}()

// refusals are the classes of receipts of what was not executed. Fatal is what depends on the
// transaction's bytes alone; what is not here may go better another time.
var refusals = map[hedera.Status]txmgr.Class{
	hapi.ResponseCodeEnum_WRONG_NONCE:                  txmgr.ClassNonceUsed,
	hapi.ResponseCodeEnum_INVALID_ETHEREUM_TRANSACTION: txmgr.ClassFatal,
	hapi.ResponseCodeEnum_WRONG_CHAIN_ID:               txmgr.ClassFatal,
	hapi.ResponseCodeEnum_MAX_GAS_LIMIT_EXCEEDED:       txmgr.ClassFatal,
	hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE:   txmgr.ClassFunds,
	hapi.ResponseCodeEnum_INSUFFICIENT_ACCOUNT_BALANCE: txmgr.ClassFunds,
	hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE:          txmgr.ClassFeeTooLow,
}

func refusal(status hedera.Status) *txmgr.Refusal {
	class, known := refusals[status]
	if !known {
		class = txmgr.ClassPoolPolicy
	}
	return &txmgr.Refusal{Class: class, Text: hedera.Explain("the network refused it at consensus: " + status.String())}
}
