package node

import (
	"context"
	"encoding/hex"

	"github.com/ethereum/go-ethereum/common"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// queryCost is what a paid query is said to cost, in tinybar. Payments are taken on
// trust and not executed.
const queryCost = 10_000

// asked is a query while it is answered.
type asked struct {
	ctx  context.Context
	view *ledger.View
	node *Node
	err  error // of gRPC: in place of an answer
}

// kind is what is known of one kind of query.
type kind struct {
	answer protoreflect.Message // an empty one
	free   bool
	// fill fills the answer, or tells what to refuse the query with.
	fill func(q *asked, query, answer proto.Message) hedera.Status
}

func kindOf[Q, A proto.Message](fill func(*asked, Q, A) hedera.Status) kind {
	var answer A
	return kind{answer: answer.ProtoReflect(), fill: func(q *asked, query, answer proto.Message) hedera.Status {
		return fill(q, query.(Q), answer.(A))
	}}
}

func (k kind) freely() kind {
	k.free = true
	return k
}

// kinds are the queries that this network knows, by the names that they have in a query.
var kinds = map[protoreflect.Name]kind{
	"transactionGetReceipt":   kindOf((*asked).receipt).freely(),
	"transactionGetRecord":    kindOf((*asked).record),
	"cryptogetAccountBalance": kindOf((*asked).balance).freely(),
	"cryptoGetInfo":           kindOf((*asked).accountInfo),
	"contractGetInfo":         kindOf((*asked).contractInfo),
	"contractGetBytecode":     kindOf((*asked).bytecode),
	"contractCallLocal":       kindOf((*asked).callLocal),
	"fileGetContents":         kindOf((*asked).fileContents),
	"fileGetInfo":             kindOf((*asked).fileInfo),
	"tokenGetInfo":            kindOf((*asked).tokenInfo),
	"tokenGetNftInfo":         kindOf((*asked).nftInfo),
	"consensusGetTopicInfo":   kindOf((*asked).topicInfo),
	"scheduleGetInfo":         kindOf((*asked).scheduleInfo),
	"accountDetails":          kindOf((*asked).details),
	"networkGetVersionInfo":   kindOf((*asked).version),
}

// Query answers from everything that has been handled. Faults, an ended context and
// a query of a kind that this network does not know are gRPC errors; everything
// else is told by the header of the answer.
func (n *Node) Query(ctx context.Context, query *hapi.Query) (*hapi.Response, error) {
	fault, err := n.spoil(ctx, nil, query)
	if err != nil {
		return nil, err
	}
	m := query.ProtoReflect()
	field := m.WhichOneof(m.Descriptor().Oneofs().ByName("query"))
	if field == nil {
		return nil, status.Error(codes.Unimplemented, "this kind of query is not supported")
	}
	k, known := kinds[field.Name()]
	if !known {
		return nil, status.Error(codes.Unimplemented, "this kind of query is not supported")
	}
	q := &asked{ctx: ctx, view: n.ledger.Handled(), node: n}
	asks, answer := m.Get(field).Message().Interface(), k.answer.New()
	header := &hapi.ResponseHeader{ResponseType: asks.(interface{ GetHeader() *hapi.QueryHeader }).GetHeader().GetResponseType()}
	answer.Set(answer.Descriptor().Fields().ByName("header"), protoreflect.ValueOfMessage(header.ProtoReflect()))
	switch {
	case fault.Status != ok:
		header.NodeTransactionPrecheckCode = fault.Status
	case header.GetResponseType() == hapi.ResponseType_ANSWER_ONLY:
		if code := k.fill(q, asks, answer.Interface()); code != hapi.ResponseCodeEnum_SUCCESS {
			header.NodeTransactionPrecheckCode = code
		}
	case header.GetResponseType() != hapi.ResponseType_COST_ANSWER:
		header.NodeTransactionPrecheckCode = hapi.ResponseCodeEnum_NOT_SUPPORTED
	}
	if header.GetResponseType() == hapi.ResponseType_COST_ANSWER && !k.free {
		header.Cost = queryCost
	}
	response := new(hapi.Response)
	members := response.ProtoReflect().Descriptor().Fields()
	for i := range members.Len() {
		if members.Get(i).Message() == answer.Descriptor() {
			response.ProtoReflect().Set(members.Get(i), protoreflect.ValueOfMessage(answer))
		}
	}
	return response, q.err
}

// find returns the records of a transaction id: the first submission with it, its
// duplicates, and the children of the first.
func (q *asked) find(id *hapi.TransactionID) (first *history.Record, duplicates []*history.Record, code hedera.Status) {
	want, code := transactionID(&hapi.TransactionID{
		TransactionValidStart: id.GetTransactionValidStart(), AccountID: id.GetAccountID(),
	})
	if code != ok {
		return nil, nil, hapi.ResponseCodeEnum_INVALID_TRANSACTION_ID
	}
	want.Scheduled = id.GetScheduled()
	for _, r := range q.view.RecordsByID(want) {
		switch {
		case id.GetNonce() > 0:
			if r.ID.Nonce == id.GetNonce() {
				return r, nil, done
			}
		case r.IsChild():
		case first == nil:
			first = r
		default:
			duplicates = append(duplicates, r)
		}
	}
	if first == nil && q.node.seen.has(want) {
		return nil, nil, hapi.ResponseCodeEnum_UNKNOWN
	}
	return first, duplicates, done
}

// done is what a query is answered with that is not refused.
const done = hapi.ResponseCodeEnum_SUCCESS

// wanted describes records, if they were asked for.
func wanted[T any](asked bool, records []*history.Record, describe func(*history.Record) T) (list []T) {
	if asked {
		for _, r := range records {
			list = append(list, describe(r))
		}
	}
	return list
}

func (q *asked) receipt(query *hapi.TransactionGetReceiptQuery, answer *hapi.TransactionGetReceiptResponse) hedera.Status {
	first, duplicates, code := q.find(query.GetTransactionID())
	switch {
	case code == hapi.ResponseCodeEnum_UNKNOWN:
		answer.Receipt = &hapi.TransactionReceipt{Status: hapi.ResponseCodeEnum_UNKNOWN}
		return done
	case code != done:
		return code
	case first == nil:
		return hapi.ResponseCodeEnum_RECEIPT_NOT_FOUND
	}
	answer.Receipt = q.receiptOf(first)
	answer.DuplicateTransactionReceipts = wanted(query.GetIncludeDuplicates(), duplicates, q.receiptOf)
	answer.ChildTransactionReceipts = wanted(query.GetIncludeChildReceipts(), first.Children, q.receiptOf)
	return done
}

func (q *asked) record(query *hapi.TransactionGetRecordQuery, answer *hapi.TransactionGetRecordResponse) hedera.Status {
	first, duplicates, code := q.find(query.GetTransactionID())
	switch {
	case code == hapi.ResponseCodeEnum_INVALID_TRANSACTION_ID:
		return code
	case first == nil:
		return hapi.ResponseCodeEnum_RECORD_NOT_FOUND
	}
	answer.TransactionRecord = q.recordOf(first)
	answer.DuplicateTransactionRecords = wanted(query.GetIncludeDuplicates(), duplicates, q.recordOf)
	answer.ChildTransactionRecords = wanted(query.GetIncludeChildRecords(), first.Children, q.recordOf)
	return done
}

// account finds an account by number or alias.
func (q *asked) account(id *hapi.AccountID) (state.Account, bool) {
	if alias := id.GetAlias(); alias != nil {
		found, known := q.view.ResolveAlias(alias)
		if !known {
			return state.Account{}, false
		}
		return q.view.Account(found)
	}
	return q.view.Account(hedera.IDOf(id, id.GetAccountNum()))
}

// contract finds a contract by number or EVM address.
func (q *asked) contract(id *hapi.ContractID) (state.Account, bool) {
	num := hedera.IDOf(id, id.GetContractNum())
	if evm := id.GetEvmAddress(); evm != nil {
		found, known := q.view.Resolve(common.BytesToAddress(evm))
		if !known || len(evm) != common.AddressLength {
			return state.Account{}, false
		}
		num = found
	}
	a, known := q.view.Account(num)
	return a, known && a.IsContract()
}

func (q *asked) balance(query *hapi.CryptoGetAccountBalanceQuery, answer *hapi.CryptoGetAccountBalanceResponse) hedera.Status {
	account, known := q.account(query.GetAccountID())
	missing := hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
	if id := query.GetContractID(); id != nil {
		account, known = q.contract(id)
		missing = hapi.ResponseCodeEnum_INVALID_CONTRACT_ID
	}
	switch {
	case !known:
		return missing
	case account.Deleted && account.IsContract():
		return hapi.ResponseCodeEnum_CONTRACT_DELETED
	case account.Deleted:
		return hapi.ResponseCodeEnum_ACCOUNT_DELETED
	}
	answer.AccountID, answer.Balance = account.ID.AccountID(), uint64(account.Balance)
	answer.TokenBalances = q.balances(account.ID)
	return done
}

func (q *asked) accountInfo(query *hapi.CryptoGetInfoQuery, answer *hapi.CryptoGetInfoResponse) hedera.Status {
	switch a, known := q.account(query.GetAccountID()); {
	case !known:
		return hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
	case a.Deleted:
		return hapi.ResponseCodeEnum_ACCOUNT_DELETED
	default:
		answer.AccountInfo = accountInfo(a)
		answer.AccountInfo.TokenRelationships, answer.AccountInfo.OwnedNfts = q.relationships(a.ID)
	}
	return done
}

func (q *asked) contractInfo(query *hapi.ContractGetInfoQuery, answer *hapi.ContractGetInfoResponse) hedera.Status {
	a, known := q.contract(query.GetContractID())
	if !known {
		return hapi.ResponseCodeEnum_INVALID_CONTRACT_ID
	}
	answer.ContractInfo = contractInfo(a, len(q.view.StorageSlots(a.ID)))
	return done
}

func (q *asked) bytecode(query *hapi.ContractGetBytecodeQuery, answer *hapi.ContractGetBytecodeResponse) hedera.Status {
	switch a, known := q.contract(query.GetContractID()); {
	case !known:
		return hapi.ResponseCodeEnum_INVALID_CONTRACT_ID
	case a.Deleted:
		return hapi.ResponseCodeEnum_CONTRACT_DELETED
	default:
		answer.Bytecode = a.Contract.Runtime
	}
	return done
}

// callLocal tells of a failure what the EVM made of the call, too.
func (q *asked) callLocal(query *hapi.ContractCallLocalQuery, answer *hapi.ContractCallLocalResponse) hedera.Status {
	target, known := q.contract(query.GetContractID())
	switch {
	case !known:
		return hapi.ResponseCodeEnum_INVALID_CONTRACT_ID
	case query.GetGas() < 0:
		return hapi.ResponseCodeEnum_CONTRACT_NEGATIVE_GAS
	}
	request := evm.CallRequest{To: &target.Address, Data: query.GetFunctionParameters(), Gas: uint64(query.GetGas())}
	if sender := query.GetSenderId(); sender != nil {
		from, known := q.account(sender)
		if !known {
			return hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
		}
		request.From = &from.Address
	}
	result, err := q.view.Call(q.ctx, request)
	if err != nil {
		q.err = status.FromContextError(err).Err()
		return done
	}
	answer.FunctionResult = &hapi.ContractFunctionResult{
		ContractID: target.ID.ContractID(), ContractCallResult: result.Output,
		ErrorMessage: result.ErrorMessage, GasUsed: result.GasUsed,
	}
	return result.Status
}

func (q *asked) file(id *hapi.FileID) (state.File, bool) {
	return q.view.File(hedera.IDOf(id, id.GetFileNum()))
}

// fileContents has none of a deleted file.
func (q *asked) fileContents(query *hapi.FileGetContentsQuery, answer *hapi.FileGetContentsResponse) hedera.Status {
	f, known := q.file(query.GetFileID())
	if !known {
		return hapi.ResponseCodeEnum_INVALID_FILE_ID
	}
	answer.FileContents = &hapi.FileGetContentsResponse_FileContents{FileID: f.ID.FileID(), Contents: f.Contents}
	return done
}

func (q *asked) fileInfo(query *hapi.FileGetInfoQuery, answer *hapi.FileGetInfoResponse) hedera.Status {
	f, known := q.file(query.GetFileID())
	if !known {
		return hapi.ResponseCodeEnum_INVALID_FILE_ID
	}
	answer.FileInfo = &hapi.FileGetInfoResponse_FileInfo{
		FileID: f.ID.FileID(), Size: int64(len(f.Contents)), ExpirationTime: f.Expires.Message(),
		Deleted: f.Deleted, Keys: &hapi.KeyList{Keys: f.Keys}, Memo: f.Memo, LedgerId: []byte{ledgerID},
	}
	return done
}

func (q *asked) topicInfo(query *hapi.ConsensusGetTopicInfoQuery, answer *hapi.ConsensusGetTopicInfoResponse) hedera.Status {
	t, known := q.view.Topic(hedera.IDOf(query.GetTopicID(), query.GetTopicID().GetTopicNum()))
	if !known || t.Deleted {
		return hapi.ResponseCodeEnum_INVALID_TOPIC_ID
	}
	answer.TopicID = t.ID.TopicID()
	answer.TopicInfo = &hapi.ConsensusTopicInfo{
		Memo: t.Memo, RunningHash: t.RunningHash[:], SequenceNumber: uint64(t.Sequence), ExpirationTime: t.Expires.Message(),
		AdminKey: t.AdminKey, SubmitKey: t.SubmitKey, AutoRenewPeriod: &hapi.Duration{Seconds: t.AutoRenewPeriod},
		LedgerId: []byte{ledgerID}, FeeScheduleKey: t.FeeScheduleKey, FeeExemptKeyList: t.ExemptKeys, CustomFees: t.Fees,
		AutoRenewAccount: given(t.AutoRenewAccount, hedera.ID.AccountID),
	}
	return done
}

func (q *asked) scheduleInfo(query *hapi.ScheduleGetInfoQuery, answer *hapi.ScheduleGetInfoResponse) hedera.Status {
	s, known := q.view.Schedule(hedera.IDOf(query.GetScheduleID(), query.GetScheduleID().GetScheduleNum()))
	if !known || s.Expires.Compare(hedera.TimestampOf(q.node.ledger.Now())) <= 0 {
		return hapi.ResponseCodeEnum_INVALID_SCHEDULE_ID
	}
	answer.ScheduleInfo = &hapi.ScheduleInfo{
		ScheduleID: s.ID.ScheduleID(), ExpirationTime: s.Expires.Message(), ScheduledTransactionBody: s.Body, Memo: s.Memo,
		AdminKey: s.AdminKey, Signers: &hapi.KeyList{Keys: s.Signatories}, CreatorAccountID: s.Creator.AccountID(),
		PayerAccountID: s.Payer.AccountID(), ScheduledTransactionID: transactionIDOf(s.Transaction), LedgerId: []byte{ledgerID},
		WaitForExpiry: s.WaitForExpiry,
	}
	switch {
	case !s.DeletedAt.IsZero():
		answer.ScheduleInfo.Data = &hapi.ScheduleInfo_DeletionTime{DeletionTime: s.DeletedAt.Message()}
	case !s.Executed.IsZero():
		answer.ScheduleInfo.Data = &hapi.ScheduleInfo_ExecutionTime{ExecutionTime: s.Executed.Message()}
	}
	return done
}

func (q *asked) version(_ *hapi.NetworkGetVersionInfoQuery, answer *hapi.NetworkGetVersionInfoResponse) hedera.Status {
	answer.HapiProtoVersion = &hapi.SemanticVersion{Minor: 75}
	answer.HederaServicesVersion = &hapi.SemanticVersion{Minor: 75}
	return done
}

func bareHex(a common.Address) string { return hex.EncodeToString(a[:]) }
