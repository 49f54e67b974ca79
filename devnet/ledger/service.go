package ledger

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"lockstep/devnet/ledger/history"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// service is what is known of one kind of transaction.
type service struct {
	pure   func(body proto.Message) hedera.Status // nil: there is nothing that a node could find wrong by itself
	handle func(h *handling, body proto.Message) hedera.Status
}

func serviceOf[B proto.Message](handle func(*handling, B) hedera.Status, pure func(B) hedera.Status) service {
	s := service{handle: func(h *handling, body proto.Message) hedera.Status { return handle(h, body.(B)) }}
	if pure != nil {
		s.pure = func(body proto.Message) hedera.Status { return pure(body.(B)) }
	}
	return s
}

// newServices lists the kinds of transactions that this network handles, by the names that they have in a body.
func newServices(l *Ledger) map[protoreflect.Name]service {
	type h = *handling
	return map[protoreflect.Name]service{
		"ethereumTransaction": serviceOf(h.ethereum, l.pureEthereum),

		"cryptoTransfer":         serviceOf(h.cryptoTransfer, pureTransfer),
		"cryptoCreateAccount":    serviceOf(h.cryptoCreate, pureCreate),
		"cryptoUpdateAccount":    serviceOf(h.cryptoUpdate, pureUpdate),
		"cryptoDelete":           serviceOf(h.cryptoDelete, pureDelete),
		"cryptoApproveAllowance": serviceOf(h.cryptoApprove, pureApprove),
		"cryptoDeleteAllowance":  serviceOf(h.cryptoDeleteAllowance, nil),

		"fileCreate": serviceOf(h.fileCreate, pureFileCreate),
		"fileAppend": serviceOf(h.fileAppend, nil),
		"fileUpdate": serviceOf(h.fileUpdate, nil),
		"fileDelete": serviceOf(h.fileDelete, nil),

		"contractCreateInstance": serviceOf(h.contractCreate, pureContractCreate),
		"contractCall":           serviceOf(h.contractCall, pureContractCall),
		"contractUpdateInstance": serviceOf(h.contractUpdate, nil),
		"contractDeleteInstance": serviceOf(h.contractDelete, nil),

		"tokenCreation":             serviceOf(h.tokenCreate, pureTokenCreate),
		"tokenUpdate":               serviceOf(h.tokenUpdate, pureTokenUpdate),
		"tokenDeletion":             serviceOf(h.tokenDelete, nil),
		"tokenMint":                 serviceOf(h.tokenMint, pureMint),
		"tokenBurn":                 serviceOf(h.tokenBurn, pureBurn),
		"tokenWipe":                 serviceOf(h.tokenWipe, pureWipe),
		"tokenAssociate":            serviceOf(h.tokenAssociate, pureAssociate[*hapi.TokenAssociateTransactionBody]),
		"tokenDissociate":           serviceOf(h.tokenDissociate, pureAssociate[*hapi.TokenDissociateTransactionBody]),
		"token_fee_schedule_update": serviceOf(h.tokenFeeSchedule, nil),
		"tokenAirdrop":              serviceOf(h.tokenAirdrop, pureAirdrop),
		"tokenClaimAirdrop":         serviceOf(h.tokenClaim, pureAirdropIDs[*hapi.TokenClaimAirdropTransactionBody]),
		"tokenCancelAirdrop":        serviceOf(h.tokenCancel, pureAirdropIDs[*hapi.TokenCancelAirdropTransactionBody]),
		"tokenReject":               serviceOf(h.tokenReject, pureReject),
		"token_update_nfts":         serviceOf(h.tokenUpdateNFTs, nil),
		"token_pause":               serviceOf(func(c h, b *hapi.TokenPauseTransactionBody) hedera.Status { return c.tokenPause(b.GetToken(), true) }, nil),
		"token_unpause":             serviceOf(func(c h, b *hapi.TokenUnpauseTransactionBody) hedera.Status { return c.tokenPause(b.GetToken(), false) }, nil),
		"tokenFreeze":               serviceOf(func(c h, b *hapi.TokenFreezeAccountTransactionBody) hedera.Status { return c.tokenFreeze(b, true) }, nil),
		"tokenUnfreeze":             serviceOf(func(c h, b *hapi.TokenUnfreezeAccountTransactionBody) hedera.Status { return c.tokenFreeze(b, false) }, nil),
		"tokenGrantKyc":             serviceOf(func(c h, b *hapi.TokenGrantKycTransactionBody) hedera.Status { return c.tokenKYC(b, true) }, nil),
		"tokenRevokeKyc":            serviceOf(func(c h, b *hapi.TokenRevokeKycTransactionBody) hedera.Status { return c.tokenKYC(b, false) }, nil),

		"consensusCreateTopic":   serviceOf(h.topicCreate, pureTopicCreate),
		"consensusUpdateTopic":   serviceOf(h.topicUpdate, pureTopicUpdate),
		"consensusDeleteTopic":   serviceOf(h.topicDelete, nil),
		"consensusSubmitMessage": serviceOf(h.topicSubmit, pureMessage),

		"scheduleCreate": serviceOf(h.scheduleCreate, l.pureSchedule),
		"scheduleSign":   serviceOf(h.scheduleSign, nil),
		"scheduleDelete": serviceOf(h.scheduleDelete, nil),

		"atomic_batch": serviceOf(h.atomicBatch, l.pureBatch),
		"util_prng":    serviceOf(h.utilPrng, nil),
	}
}

// dataOf is what a body is about, and its name there; nil for a body about nothing.
func dataOf(body protoreflect.ProtoMessage) (proto.Message, protoreflect.Name) {
	m := body.ProtoReflect()
	if field := m.WhichOneof(m.Descriptor().Oneofs().ByName("data")); field != nil {
		return m.Get(field).Message().Interface(), field.Name()
	}
	return nil, ""
}

// bodyOf is a body about something.
func bodyOf(data proto.Message) *hapi.TransactionBody {
	body, m := new(hapi.TransactionBody), data.ProtoReflect()
	kinds := body.ProtoReflect().Descriptor().Oneofs().ByName("data").Fields()
	for i := range kinds.Len() {
		if kinds.Get(i).Message() == m.Descriptor() {
			body.ProtoReflect().Set(kinds.Get(i), protoreflect.ValueOfMessage(m))
		}
	}
	return body
}

// kindOf is the kind of a body: its name there in capitals.
func (l *Ledger) kindOf(body *hapi.TransactionBody) history.Kind {
	_, name := dataOf(body)
	if _, known := l.services[name]; !known {
		return history.KindUnknown
	}
	return history.Kind(strings.ToUpper(strings.ReplaceAll(string(name), "_", "")))
}

// serve handles what the body is about.
func (h *handling) serve() hedera.Status {
	data, name := dataOf(h.sub.Body)
	s, known := h.l.services[name]
	if !known {
		return hapi.ResponseCodeEnum_NOT_SUPPORTED
	}
	return s.handle(h, data)
}

// PureCheck is what a node finds wrong with a body by itself, before it looks at
// any account: SUCCESS means nothing. NOT_SUPPORTED is a kind of transaction that
// this network does not have.
func (l *Ledger) PureCheck(body *hapi.TransactionBody) hedera.Status {
	if status := pureFeeLimits(body); status != okay {
		return status
	}
	data, name := dataOf(body)
	switch s, known := l.services[name]; {
	case !known:
		return hapi.ResponseCodeEnum_NOT_SUPPORTED
	case s.pure == nil:
		return okay
	default:
		return s.pure(data)
	}
}
