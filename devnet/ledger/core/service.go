package core

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"lockstep/devnet/ledger/fees"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

const okay = hapi.ResponseCodeEnum_SUCCESS

// Service is what is known of one kind of transaction.
type Service struct {
	pure   func(body proto.Message) hedera.Status // nil: there is nothing that a node could find wrong by itself
	handle func(h *Handling, body proto.Message) hedera.Status

	Refused func(h *Handling) // records what consensus would not handle; nil: there is nothing to add
}

// ServiceOf is a service of its two functions.
func ServiceOf[B proto.Message](handle func(*Handling, B) hedera.Status, pure func(B) hedera.Status) Service {
	s := Service{handle: func(h *Handling, body proto.Message) hedera.Status { return handle(h, body.(B)) }}
	if pure != nil {
		s.pure = func(body proto.Message) hedera.Status { return pure(body.(B)) }
	}
	return s
}

// Services are the kinds of transactions that a network handles, by the names that they have in a body.
type Services map[protoreflect.Name]Service

// DataOf is what a body is about, and its name there; nil for a body about nothing.
func DataOf(body protoreflect.ProtoMessage) (proto.Message, protoreflect.Name) {
	m := body.ProtoReflect()
	if field := m.WhichOneof(m.Descriptor().Oneofs().ByName("data")); field != nil {
		return m.Get(field).Message().Interface(), field.Name()
	}
	return nil, ""
}

// BodyOf is a body about something.
func BodyOf(data proto.Message) *hapi.TransactionBody {
	body, m := new(hapi.TransactionBody), data.ProtoReflect()
	kinds := body.ProtoReflect().Descriptor().Oneofs().ByName("data").Fields()
	for i := range kinds.Len() {
		if kinds.Get(i).Message() == m.Descriptor() {
			body.ProtoReflect().Set(kinds.Get(i), protoreflect.ValueOfMessage(m))
		}
	}
	return body
}

// KindOf is the kind of a body: its name there in capitals.
func (n *Network) KindOf(body *hapi.TransactionBody) history.Kind {
	_, name := DataOf(body)
	if _, known := n.Services[name]; !known {
		return history.KindUnknown
	}
	return history.Kind(strings.ToUpper(strings.ReplaceAll(string(name), "_", "")))
}

// service is what is known of the kind of the transaction, and what its body is about.
func (h *Handling) service() (Service, proto.Message) {
	data, name := DataOf(h.Sub.Body)
	return h.Net.Services[name], data
}

// Serve handles what the body is about.
func (h *Handling) Serve() hedera.Status {
	s, data := h.service()
	if s.handle == nil {
		return hapi.ResponseCodeEnum_NOT_SUPPORTED
	}
	return s.handle(h, data)
}

// PureCheck is what a node finds wrong with a body by itself, before it looks at
// any account: SUCCESS means nothing. NOT_SUPPORTED is a kind of transaction that
// this network does not have.
func (n *Network) PureCheck(body *hapi.TransactionBody) hedera.Status {
	if status := pureFeeLimits(body); status != okay {
		return status
	}
	data, name := DataOf(body)
	switch s, known := n.Services[name]; {
	case !known:
		return hapi.ResponseCodeEnum_NOT_SUPPORTED
	case s.pure == nil:
		return okay
	default:
		return s.pure(data)
	}
}

// pureFeeLimits checks what a payer says about custom fees; only messages to topics have such limits.
func pureFeeLimits(body *hapi.TransactionBody) hedera.Status {
	limits := body.GetMaxCustomFees()
	if len(limits) > 0 && body.GetConsensusSubmitMessage() == nil {
		return hapi.ResponseCodeEnum_MAX_CUSTOM_FEES_IS_NOT_SUPPORTED
	}
	for i, limit := range limits {
		if limit.GetAccountId().GetAccount() == nil || len(limit.GetFees()) == 0 {
			return hapi.ResponseCodeEnum_INVALID_MAX_CUSTOM_FEES
		}
		for _, other := range limits[:i] {
			if SameAccount(limit.GetAccountId(), other.GetAccountId()) {
				return hapi.ResponseCodeEnum_DUPLICATE_ACCOUNT_ID_IN_MAX_CUSTOM_FEE_LIST
			}
		}
		for j, fee := range limit.GetFees() {
			if fee.GetAmount() < 0 {
				return hapi.ResponseCodeEnum_INVALID_MAX_CUSTOM_FEES
			}
			for _, other := range limit.GetFees()[:j] {
				if SameDenomination(fee, other) {
					return hapi.ResponseCodeEnum_DUPLICATE_DENOMINATION_IN_MAX_CUSTOM_FEE_LIST
				}
			}
		}
	}
	return okay
}

// SameDenomination tells whether two fees are paid in the same token, or both in hbar.
func SameDenomination(a, b *hapi.FixedFee) bool {
	return (a.GetDenominatingTokenId() == nil) == (b.GetDenominatingTokenId() == nil) &&
		a.GetDenominatingTokenId().GetTokenNum() == b.GetDenominatingTokenId().GetTokenNum()
}

// Required is what the network wants to be offered as a fee for any transaction. It
// asks for the limit to be high enough and then charges gas only.
const Required hedera.Tinybar = 83_333

// waived tells whether an account pays nothing: the network's own do not.
func waived(payer hedera.ID) bool { return payer.Num <= 100 }

func (h *Handling) fee() hedera.Tinybar {
	rate := h.Net.Rate
	tinycents := fees.Of(h.Sub.Body, h.Sub.Size, h.Sub.Signatures.Count(), h.State)
	return hedera.Tinybar(tinycents * int64(rate.Hbar) / int64(rate.Cents))
}

// charge takes the fee from the payer, whatever becomes of the transaction.
func (h *Handling) charge() hedera.Status {
	if !h.Net.Fees || h.Child || waived(h.Sub.Payer) {
		return okay
	}
	fee, payer := h.fee(), h.Account(h.Sub.Payer)
	switch {
	case h.Record.MaxFee > 0 && h.Record.MaxFee < fee:
		return hapi.ResponseCodeEnum_INSUFFICIENT_TX_FEE
	case payer.Tinybar() < fee:
		return hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE
	}
	h.State.Move(payer, h.State.EntityAccount(state.FeeCollector), fee)
	h.Record.Fee = fee
	return okay
}

// Quote is what a transaction would be charged besides gas, or Required where nothing is charged. It reads the state at a time.
func (n *Network) Quote(sub *Submission, asOf int64) hedera.Tinybar {
	if !n.Fees || waived(sub.Payer) {
		return Required
	}
	h := &Handling{Net: n, Sub: sub, State: NewWork(n.Store, asOf, true)}
	return h.fee()
}
