package node

import (
	"context"
	"encoding/hex"

	"github.com/ethereum/go-ethereum/common"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"lockstep/devnet/ledger"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// queryCost is what a paid query is said to cost, in tinybar. Payments are taken on
// trust and not executed.
const queryCost = 10_000

// asked is a query while it is answered.
type asked struct {
	view   *ledger.View
	header *hapi.ResponseHeader
	node   *Node
	fault  hedera.Status // answered instead of anything else, where set
}

// Query answers from everything that has been handled. Faults, an ended context and
// a query of a kind that this network does not know are gRPC errors; everything
// else is told by the header of the answer.
func (n *Node) Query(ctx context.Context, query *hapi.Query) (*hapi.Response, error) {
	fault, err := n.spoil(ctx, nil, query)
	if err != nil {
		return nil, err
	}
	q := &asked{view: n.ledger.Handled(), node: n, fault: fault.Status}
	switch data := query.GetQuery().(type) {
	case *hapi.Query_TransactionGetReceipt:
		q.free(data.TransactionGetReceipt.GetHeader())
		return q.receipt(data.TransactionGetReceipt), nil
	case *hapi.Query_TransactionGetRecord:
		q.paid(data.TransactionGetRecord.GetHeader())
		return q.record(data.TransactionGetRecord), nil
	case *hapi.Query_CryptogetAccountBalance:
		q.free(data.CryptogetAccountBalance.GetHeader())
		return q.balance(data.CryptogetAccountBalance), nil
	case *hapi.Query_CryptoGetInfo:
		q.paid(data.CryptoGetInfo.GetHeader())
		return q.accountInfo(data.CryptoGetInfo), nil
	case *hapi.Query_ContractGetInfo:
		q.paid(data.ContractGetInfo.GetHeader())
		return q.contractInfo(data.ContractGetInfo), nil
	case *hapi.Query_ContractGetBytecode:
		q.paid(data.ContractGetBytecode.GetHeader())
		return q.bytecode(data.ContractGetBytecode), nil
	case *hapi.Query_ContractCallLocal:
		q.paid(data.ContractCallLocal.GetHeader())
		return q.callLocal(ctx, data.ContractCallLocal)
	case *hapi.Query_FileGetContents:
		q.paid(data.FileGetContents.GetHeader())
		return q.fileContents(data.FileGetContents), nil
	case *hapi.Query_FileGetInfo:
		q.paid(data.FileGetInfo.GetHeader())
		return q.fileInfo(data.FileGetInfo), nil
	case *hapi.Query_TokenGetInfo:
		q.paid(data.TokenGetInfo.GetHeader())
		return q.tokenInfo(data.TokenGetInfo), nil
	case *hapi.Query_TokenGetNftInfo:
		q.paid(data.TokenGetNftInfo.GetHeader())
		return q.nftInfo(data.TokenGetNftInfo), nil
	case *hapi.Query_ConsensusGetTopicInfo:
		q.paid(data.ConsensusGetTopicInfo.GetHeader())
		return q.topicInfo(data.ConsensusGetTopicInfo), nil
	case *hapi.Query_ScheduleGetInfo:
		q.paid(data.ScheduleGetInfo.GetHeader())
		return q.scheduleInfo(data.ScheduleGetInfo), nil
	case *hapi.Query_AccountDetails:
		q.paid(data.AccountDetails.GetHeader())
		return q.details(data.AccountDetails), nil
	case *hapi.Query_NetworkGetVersionInfo:
		q.paid(data.NetworkGetVersionInfo.GetHeader())
		return q.version(), nil
	default:
		return nil, status.Error(codes.Unimplemented, "this kind of query is not supported")
	}
}

// free and paid begin the header of the answer. After them, answered tells whether
// that is all there is to say.
func (q *asked) free(h *hapi.QueryHeader) { q.begin(h, 0) }

func (q *asked) paid(h *hapi.QueryHeader) { q.begin(h, queryCost) }

func (q *asked) begin(h *hapi.QueryHeader, cost uint64) {
	kind := h.GetResponseType()
	q.header = &hapi.ResponseHeader{ResponseType: kind}
	switch kind {
	case hapi.ResponseType_ANSWER_ONLY:
	case hapi.ResponseType_COST_ANSWER:
		q.header.Cost = cost
	default:
		q.header.NodeTransactionPrecheckCode = hapi.ResponseCodeEnum_NOT_SUPPORTED
	}
	if q.fault != ok {
		q.header.NodeTransactionPrecheckCode = q.fault
	}
}

// answered tells that only the cost was asked for, or that the query was refused.
func (q *asked) answered() bool {
	return q.header.GetResponseType() != hapi.ResponseType_ANSWER_ONLY || q.header.GetNodeTransactionPrecheckCode() != ok
}

func (q *asked) refuse(code hedera.Status) { q.header.NodeTransactionPrecheckCode = code }

// find returns the records of a transaction id: the first submission with it, its
// duplicates, and the children of the first.
func (q *asked) find(id *hapi.TransactionID) (first *ledger.Record, duplicates []*ledger.Record, code hedera.Status) {
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
				return r, nil, ok
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
	return first, duplicates, ok
}

func (q *asked) receipt(query *hapi.TransactionGetReceiptQuery) *hapi.Response {
	answer := &hapi.TransactionGetReceiptResponse{Header: q.header}
	response := &hapi.Response{Response: &hapi.Response_TransactionGetReceipt{TransactionGetReceipt: answer}}
	if q.answered() {
		return response
	}
	first, duplicates, code := q.find(query.GetTransactionID())
	switch {
	case code == hapi.ResponseCodeEnum_UNKNOWN:
		answer.Receipt = &hapi.TransactionReceipt{Status: hapi.ResponseCodeEnum_UNKNOWN}
		return response
	case code != ok:
		q.refuse(code)
		return response
	case first == nil:
		q.refuse(hapi.ResponseCodeEnum_RECEIPT_NOT_FOUND)
		return response
	}
	answer.Receipt = q.receiptOf(first)
	if query.GetIncludeDuplicates() {
		for _, r := range duplicates {
			answer.DuplicateTransactionReceipts = append(answer.DuplicateTransactionReceipts, q.receiptOf(r))
		}
	}
	if query.GetIncludeChildReceipts() {
		for _, r := range first.Children {
			answer.ChildTransactionReceipts = append(answer.ChildTransactionReceipts, q.receiptOf(r))
		}
	}
	return response
}

func (q *asked) record(query *hapi.TransactionGetRecordQuery) *hapi.Response {
	answer := &hapi.TransactionGetRecordResponse{Header: q.header}
	response := &hapi.Response{Response: &hapi.Response_TransactionGetRecord{TransactionGetRecord: answer}}
	if q.answered() {
		return response
	}
	first, duplicates, code := q.find(query.GetTransactionID())
	switch {
	case code == hapi.ResponseCodeEnum_INVALID_TRANSACTION_ID:
		q.refuse(code)
		return response
	case first == nil:
		q.refuse(hapi.ResponseCodeEnum_RECORD_NOT_FOUND)
		return response
	}
	answer.TransactionRecord = q.recordOf(first)
	if query.GetIncludeDuplicates() {
		for _, r := range duplicates {
			answer.DuplicateTransactionRecords = append(answer.DuplicateTransactionRecords, q.recordOf(r))
		}
	}
	if query.GetIncludeChildRecords() {
		for _, r := range first.Children {
			answer.ChildTransactionRecords = append(answer.ChildTransactionRecords, q.recordOf(r))
		}
	}
	return response
}

// account finds an account by number or alias.
func (q *asked) account(id *hapi.AccountID) (ledger.Account, bool) {
	if alias := id.GetAlias(); alias != nil {
		found, known := q.view.ResolveAlias(alias)
		if !known {
			return ledger.Account{}, false
		}
		return q.view.Account(found)
	}
	return q.view.Account(hedera.ID{Shard: id.GetShardNum(), Realm: id.GetRealmNum(), Num: id.GetAccountNum()})
}

// contract finds a contract by number or EVM address.
func (q *asked) contract(id *hapi.ContractID) (ledger.Account, bool) {
	num := hedera.ID{Shard: id.GetShardNum(), Realm: id.GetRealmNum(), Num: id.GetContractNum()}
	if evm := id.GetEvmAddress(); evm != nil {
		found, known := q.view.Resolve(common.BytesToAddress(evm))
		if !known || len(evm) != common.AddressLength {
			return ledger.Account{}, false
		}
		num = found
	}
	a, known := q.view.Account(num)
	return a, known && a.IsContract()
}

func (q *asked) balance(query *hapi.CryptoGetAccountBalanceQuery) *hapi.Response {
	answer := &hapi.CryptoGetAccountBalanceResponse{Header: q.header}
	response := &hapi.Response{Response: &hapi.Response_CryptogetAccountBalance{CryptogetAccountBalance: answer}}
	if q.answered() {
		return response
	}
	account, known := q.account(query.GetAccountID())
	missing := hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID
	if id := query.GetContractID(); id != nil {
		account, known = q.contract(id)
		missing = hapi.ResponseCodeEnum_INVALID_CONTRACT_ID
	}
	switch {
	case !known:
		q.refuse(missing)
	case account.Deleted && account.IsContract():
		q.refuse(hapi.ResponseCodeEnum_CONTRACT_DELETED)
	case account.Deleted:
		q.refuse(hapi.ResponseCodeEnum_ACCOUNT_DELETED)
	default:
		answer.AccountID, answer.Balance = accountID(account.ID), uint64(account.Balance)
		answer.TokenBalances = q.balances(account.ID)
	}
	return response
}

func (q *asked) accountInfo(query *hapi.CryptoGetInfoQuery) *hapi.Response {
	answer := &hapi.CryptoGetInfoResponse{Header: q.header}
	response := &hapi.Response{Response: &hapi.Response_CryptoGetInfo{CryptoGetInfo: answer}}
	if q.answered() {
		return response
	}
	switch a, known := q.account(query.GetAccountID()); {
	case !known:
		q.refuse(hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID)
	case a.Deleted:
		q.refuse(hapi.ResponseCodeEnum_ACCOUNT_DELETED)
	default:
		answer.AccountInfo = accountInfo(a)
		answer.AccountInfo.TokenRelationships, answer.AccountInfo.OwnedNfts = q.relationships(a.ID)
	}
	return response
}

func (q *asked) contractInfo(query *hapi.ContractGetInfoQuery) *hapi.Response {
	answer := &hapi.ContractGetInfoResponse{Header: q.header}
	response := &hapi.Response{Response: &hapi.Response_ContractGetInfo{ContractGetInfo: answer}}
	if q.answered() {
		return response
	}
	if a, known := q.contract(query.GetContractID()); known {
		answer.ContractInfo = contractInfo(a, len(q.view.StorageSlots(a.ID)))
	} else {
		q.refuse(hapi.ResponseCodeEnum_INVALID_CONTRACT_ID)
	}
	return response
}

func (q *asked) bytecode(query *hapi.ContractGetBytecodeQuery) *hapi.Response {
	answer := &hapi.ContractGetBytecodeResponse{Header: q.header}
	response := &hapi.Response{Response: &hapi.Response_ContractGetBytecodeResponse{ContractGetBytecodeResponse: answer}}
	if q.answered() {
		return response
	}
	switch a, known := q.contract(query.GetContractID()); {
	case !known:
		q.refuse(hapi.ResponseCodeEnum_INVALID_CONTRACT_ID)
	case a.Deleted:
		q.refuse(hapi.ResponseCodeEnum_CONTRACT_DELETED)
	default:
		answer.Bytecode = a.Contract.Runtime
	}
	return response
}

func (q *asked) callLocal(ctx context.Context, query *hapi.ContractCallLocalQuery) (*hapi.Response, error) {
	answer := &hapi.ContractCallLocalResponse{Header: q.header}
	response := &hapi.Response{Response: &hapi.Response_ContractCallLocal{ContractCallLocal: answer}}
	if q.answered() {
		return response, nil
	}
	target, known := q.contract(query.GetContractID())
	switch {
	case !known:
		q.refuse(hapi.ResponseCodeEnum_INVALID_CONTRACT_ID)
		return response, nil
	case query.GetGas() < 0:
		q.refuse(hapi.ResponseCodeEnum_CONTRACT_NEGATIVE_GAS)
		return response, nil
	}
	request := ledger.CallRequest{To: &target.Address, Data: query.GetFunctionParameters(), Gas: uint64(query.GetGas())}
	if sender := query.GetSenderId(); sender != nil {
		from, known := q.account(sender)
		if !known {
			q.refuse(hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID)
			return response, nil
		}
		request.From = &from.Address
	}
	result, err := q.view.Call(ctx, request)
	if err != nil {
		return nil, status.FromContextError(err).Err()
	}
	if result.Status != hapi.ResponseCodeEnum_SUCCESS {
		q.refuse(result.Status)
	}
	answer.FunctionResult = &hapi.ContractFunctionResult{
		ContractID: contractID(target.ID), ContractCallResult: result.Output,
		ErrorMessage: result.ErrorMessage, GasUsed: result.GasUsed,
	}
	return response, nil
}

func (q *asked) file(id *hapi.FileID) (ledger.File, bool) {
	return q.view.File(hedera.ID{Shard: id.GetShardNum(), Realm: id.GetRealmNum(), Num: id.GetFileNum()})
}

func (q *asked) fileContents(query *hapi.FileGetContentsQuery) *hapi.Response {
	answer := &hapi.FileGetContentsResponse{Header: q.header}
	response := &hapi.Response{Response: &hapi.Response_FileGetContents{FileGetContents: answer}}
	if q.answered() {
		return response
	}
	// A deleted file has contents, too: none.
	if f, known := q.file(query.GetFileID()); known {
		answer.FileContents = &hapi.FileGetContentsResponse_FileContents{FileID: fileID(f.ID), Contents: f.Contents}
	} else {
		q.refuse(hapi.ResponseCodeEnum_INVALID_FILE_ID)
	}
	return response
}

func (q *asked) fileInfo(query *hapi.FileGetInfoQuery) *hapi.Response {
	answer := &hapi.FileGetInfoResponse{Header: q.header}
	response := &hapi.Response{Response: &hapi.Response_FileGetInfo{FileGetInfo: answer}}
	if q.answered() {
		return response
	}
	if f, known := q.file(query.GetFileID()); known {
		answer.FileInfo = fileInfo(f)
	} else {
		q.refuse(hapi.ResponseCodeEnum_INVALID_FILE_ID)
	}
	return response
}

func (q *asked) version() *hapi.Response {
	answer := &hapi.NetworkGetVersionInfoResponse{Header: q.header}
	response := &hapi.Response{Response: &hapi.Response_NetworkGetVersionInfo{NetworkGetVersionInfo: answer}}
	if !q.answered() {
		answer.HapiProtoVersion = &hapi.SemanticVersion{Minor: 75}
		answer.HederaServicesVersion = &hapi.SemanticVersion{Minor: 75}
	}
	return response
}

func bareHex(a common.Address) string { return hex.EncodeToString(a[:]) }
