package consensus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// errNotListed says that a node is not, or no longer, one of the network.
var errNotListed = errors.New("not a node of this network")

// maxQueryFee is the maximum that is paid for one answer. Nodes ask for about a hundredth of a cent.
const maxQueryFee = hedera.Hbar

// ReceiptAt asks one node for the receipt of a transaction, once; it costs nothing. Without a
// receipt the error is ErrInProgress, ErrUnknownID, or, when the node gave no usable answer,
// another one, which says nothing about the transaction.
func (c *Client) ReceiptAt(ctx context.Context, id hedera.TransactionID, at hedera.ID) (Receipt, error) {
	n := c.nodes.find(at)
	if n == nil {
		return Receipt{}, fmt.Errorf("node %s: %w", at, errNotListed)
	}
	ctx, cancel := context.WithTimeout(ctx, c.pace.query)
	defer cancel()
	receipt, answer, err := c.query(ctx, n, id)
	switch {
	case receipt != nil:
		return *receipt, nil
	case answer == idKnown:
		return Receipt{}, fmt.Errorf("transaction %s at node %s: %w", id, at, ErrInProgress)
	case answer == idUnknown:
		return Receipt{}, fmt.Errorf("transaction %s at node %s: %w", id, at, ErrUnknownID)
	default:
		return Receipt{}, err
	}
}

// Record is what the network did with a transaction.
type Record struct {
	Receipt
	Consensus hedera.Timestamp // when
	Fee       hedera.Tinybar   // that its payer was charged, gas included
	// Ethereum is the hash of the Ethereum transaction; zero if none was run.
	Ethereum common.Hash
	// Hash is the SHA-384 of the signed HAPI transaction. It tells which node's copy was run.
	Hash []byte
}

// RecordAt asks one node for the record of a transaction, once. The operator pays the node for it,
// by a transaction of its own. Without a record the error is ErrUnknownID, also while the transaction
// is in progress, or, when the node gave no usable answer, another one.
func (c *Client) RecordAt(ctx context.Context, id hedera.TransactionID, at hedera.ID) (Record, error) {
	n, payer := c.nodes.find(at), c.operators.main()
	if n == nil {
		return Record{}, fmt.Errorf("node %s: %w", at, errNotListed)
	}
	if payer == nil {
		return Record{}, ErrNoOperator
	}
	ctx, cancel := context.WithTimeout(ctx, c.attemptTimeout)
	defer cancel()
	answer, err := paid(n, func(kind hapi.ResponseType, fee hedera.Tinybar) (*hapi.TransactionGetRecordResponse, error) {
		return c.askRecord(ctx, n, payer, id, kind, fee)
	})
	if err != nil {
		return Record{}, err
	}
	record := answer.GetTransactionRecord()
	if record.GetReceipt() == nil {
		return Record{}, fmt.Errorf("node %s: the answer has no record", at)
	}
	found := Record{
		Receipt:   *newReceipt(record.GetReceipt()),
		Consensus: hedera.Timestamp{Seconds: record.GetConsensusTimestamp().GetSeconds(), Nanos: record.GetConsensusTimestamp().GetNanos()},
		Fee:       hedera.Tinybar(record.GetTransactionFee()), Hash: record.GetTransactionHash(),
		Ethereum: common.BytesToHash(record.GetEthereumHash()),
	}
	found.TransactionID, found.Node = id, at
	return found, nil
}

// paid asks a node what an answer costs, and then for the answer with a payment.
func paid[T interface{ GetHeader() *hapi.ResponseHeader }](n *node, ask func(kind hapi.ResponseType, fee hedera.Tinybar) (T, error)) (T, error) {
	answer, err := ask(hapi.ResponseType_COST_ANSWER, 0)
	if err != nil {
		return answer, err
	}
	cost := hedera.Tinybar(answer.GetHeader().GetCost())
	if cost < 0 || cost > maxQueryFee {
		return answer, fmt.Errorf("node %s wants %d tinybar for an answer", n.id, cost)
	}
	return ask(hapi.ResponseType_ANSWER_ONLY, cost+cost/10) // a tenth more, because the price may have risen meanwhile
}

// payment returns the header of a query that the payer pays the node for.
func (c *Client) payment(n *node, payer *Operator, kind hapi.ResponseType, fee hedera.Tinybar) (*hapi.QueryHeader, error) {
	id, _ := c.ids.next(payer.ID, time.Now())
	payment := draft{operation: transfer(payer.ID, n.id, fee), id: id, maxFee: maxQueryFee, signer: payer}
	_, signed, err := payment.sign(n.id)
	return &hapi.QueryHeader{Payment: &hapi.Transaction{SignedTransactionBytes: signed}, ResponseType: &kind}, err
}

// put makes one query.
func (c *Client) put(ctx context.Context, n *node, method string, query *hapi.Query) (*hapi.Response, error) {
	request, err := proto.Marshal(query)
	if err != nil {
		return nil, err
	}
	conn, err := n.ready(ctx, forQueries, c.pace.wake)
	if err != nil {
		return nil, err
	}
	response := new(hapi.Response)
	if err := call(ctx, conn, method, request, nil, response); err != nil {
		return nil, fmt.Errorf("node %s: %w", n.id, err)
	}
	return response, nil
}

// askRecord makes one record query, with a payment for the node.
func (c *Client) askRecord(ctx context.Context, n *node, payer *Operator, id hedera.TransactionID, kind hapi.ResponseType, fee hedera.Tinybar) (*hapi.TransactionGetRecordResponse, error) {
	header, err := c.payment(n, payer, kind, fee)
	if err != nil {
		return nil, err
	}
	response, err := c.put(ctx, n, hapi.MethodGetTxRecordByTxID, &hapi.Query{Query: &hapi.Query_TransactionGetRecord{TransactionGetRecord: &hapi.TransactionGetRecordQuery{
		Header: header,
		TransactionID: &hapi.TransactionID{
			TransactionValidStart: &hapi.Timestamp{Seconds: id.ValidStart.Seconds, Nanos: id.ValidStart.Nanos},
			AccountID: &hapi.AccountID{
				ShardNum: &id.Payer.Shard, RealmNum: &id.Payer.Realm, Account: &hapi.AccountID_AccountNum{AccountNum: id.Payer.Num},
			},
		},
	}}})
	if err != nil {
		return nil, err
	}
	answer := response.GetTransactionGetRecord()
	switch status := answer.GetHeader().GetNodeTransactionPrecheckCode(); {
	case answer == nil:
		return nil, fmt.Errorf("node %s: the answer is not a record", n.id)
	case status == hapi.ResponseCodeEnum_RECORD_NOT_FOUND:
		return nil, fmt.Errorf("transaction %s at node %s: %w", id, n.id, ErrUnknownID)
	case status != hapi.ResponseCodeEnum_OK:
		return nil, fmt.Errorf("node %s: record query: %s", n.id, status)
	}
	return answer, nil
}

// Account is an account as a node knows it, without the delay of a mirror node.
type Account struct {
	ID      hedera.ID
	Nonce   uint64 // of its Ethereum transactions: the next one's
	Balance hedera.Tinybar
}

// AccountAt asks one node for the account at an EVM address, once. The operator pays the node for
// it, by a transaction of its own. The error is ErrNoAccount if there is no account.
func (c *Client) AccountAt(ctx context.Context, address common.Address, at hedera.ID) (Account, error) {
	n, payer := c.nodes.find(at), c.operators.main()
	if n == nil {
		return Account{}, fmt.Errorf("node %s: %w", at, errNotListed)
	}
	if payer == nil {
		return Account{}, ErrNoOperator
	}
	ctx, cancel := context.WithTimeout(ctx, c.attemptTimeout)
	defer cancel()
	answer, err := paid(n, func(kind hapi.ResponseType, fee hedera.Tinybar) (*hapi.CryptoGetInfoResponse, error) {
		return c.askAccount(ctx, n, payer, address, kind, fee)
	})
	if err != nil {
		return Account{}, err
	}
	info := answer.GetAccountInfo()
	if info == nil || info.GetEthereumNonce() < 0 {
		return Account{}, fmt.Errorf("node %s: the answer has no account", at)
	}
	id := info.GetAccountID()
	return Account{
		ID:    hedera.ID{Shard: id.GetShardNum(), Realm: id.GetRealmNum(), Num: id.GetAccountNum()},
		Nonce: uint64(info.GetEthereumNonce()), Balance: hedera.Tinybar(info.GetBalance()),
	}, nil
}

func (c *Client) askAccount(ctx context.Context, n *node, payer *Operator, address common.Address, kind hapi.ResponseType, fee hedera.Tinybar) (*hapi.CryptoGetInfoResponse, error) {
	header, err := c.payment(n, payer, kind, fee)
	if err != nil {
		return nil, err
	}
	shard, realm := payer.ID.Shard, payer.ID.Realm
	account := &hapi.AccountID{ShardNum: &shard, RealmNum: &realm, Account: &hapi.AccountID_Alias{Alias: address[:]}}
	if id, ok := hedera.FromLongZero(address); ok {
		account.Account = &hapi.AccountID_AccountNum{AccountNum: id.Num}
	}
	response, err := c.put(ctx, n, hapi.MethodGetAccountInfo, &hapi.Query{Query: &hapi.Query_CryptoGetInfo{
		CryptoGetInfo: &hapi.CryptoGetInfoQuery{Header: header, AccountID: account},
	}})
	if err != nil {
		return nil, err
	}
	answer := response.GetCryptoGetInfo()
	switch status := answer.GetHeader().GetNodeTransactionPrecheckCode(); {
	case status == hapi.ResponseCodeEnum_OK:
		return answer, nil
	case isNoAccount(status):
		return nil, fmt.Errorf("%s at node %s: %w", address, n.id, ErrNoAccount)
	default:
		return nil, fmt.Errorf("node %s: account query: %s", n.id, status)
	}
}

// BalanceAt asks one node for the balance of an account, once. It costs nothing and proves no key. The error is
// ErrNoAccount if there is no account.
func (c *Client) BalanceAt(ctx context.Context, account, at hedera.ID) (hedera.Tinybar, error) {
	n := c.nodes.find(at)
	if n == nil {
		return 0, fmt.Errorf("node %s: %w", at, errNotListed)
	}
	ctx, cancel := context.WithTimeout(ctx, c.attemptTimeout)
	defer cancel()
	kind := hapi.ResponseType_ANSWER_ONLY
	response, err := c.put(ctx, n, hapi.MethodCryptoGetBalance, &hapi.Query{Query: &hapi.Query_CryptogetAccountBalance{
		CryptogetAccountBalance: &hapi.CryptoGetAccountBalanceQuery{
			Header: &hapi.QueryHeader{ResponseType: &kind},
			BalanceSource: &hapi.CryptoGetAccountBalanceQuery_AccountID{AccountID: &hapi.AccountID{
				ShardNum: &account.Shard, RealmNum: &account.Realm, Account: &hapi.AccountID_AccountNum{AccountNum: account.Num},
			}},
		},
	}})
	if err != nil {
		return 0, err
	}
	answer := response.GetCryptogetAccountBalance()
	switch status := answer.GetHeader().GetNodeTransactionPrecheckCode(); {
	case answer == nil:
		return 0, fmt.Errorf("node %s: the answer is not a balance", n.id)
	case status == hapi.ResponseCodeEnum_OK:
		return hedera.Tinybar(answer.GetBalance()), nil
	case isNoAccount(status):
		return 0, fmt.Errorf("%s at node %s: %w", account, n.id, ErrNoAccount)
	default:
		return 0, fmt.Errorf("node %s: balance query: %s", n.id, status)
	}
}

// isNoAccount reports whether a status says that there is no such account.
func isNoAccount(status hapi.ResponseCodeEnum) bool {
	switch status {
	case hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID, hapi.ResponseCodeEnum_ACCOUNT_ID_DOES_NOT_EXIST, hapi.ResponseCodeEnum_ACCOUNT_DELETED:
		return true
	default:
		return false
	}
}

// Fields of CryptoTransferTransactionBody and what is in it.
const (
	fieldTransfer      = 14 // of TransactionBody.data
	fieldTransferList  = 1
	fieldAccountAmount = 1
	fieldAmountAccount = 1
	fieldAmount        = 2
)

// transfer moves tinybars from one account to another.
func transfer(from, to hedera.ID, amount hedera.Tinybar) operation {
	var list []byte
	for _, side := range []struct {
		account hedera.ID
		amount  int64
	}{{from, -int64(amount)}, {to, int64(amount)}} {
		entry := appendVarint(appendID(nil, fieldAmountAccount, side.account), fieldAmount, protowire.EncodeZigZag(side.amount))
		list = appendBytes(list, fieldAccountAmount, entry)
	}
	return operation{method: hapi.MethodCryptoTransfer, field: fieldTransfer, data: appendBytes(nil, fieldTransferList, list)}
}
