package consensus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ethereum/go-ethereum/common"

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

// NonceAt asks one node for the next nonce of the account at an EVM address, once, without the delay of a mirror node. The operator pays
// the node for it, by a transaction of its own. The error is ErrNoAccount if there is no account.
func (c *Client) NonceAt(ctx context.Context, address common.Address, at hedera.ID) (uint64, error) {
	n, payer := c.nodes.find(at), c.operators.main()
	if n == nil {
		return 0, fmt.Errorf("node %s: %w", at, errNotListed)
	}
	if payer == nil {
		return 0, ErrNoOperator
	}
	ctx, cancel := context.WithTimeout(ctx, c.attemptTimeout)
	defer cancel()
	account := &hapi.AccountID{ShardNum: &payer.ID.Shard, RealmNum: &payer.ID.Realm, Account: &hapi.AccountID_Alias{Alias: address[:]}}
	if id, ok := hedera.FromLongZero(address); ok {
		account.Account = &hapi.AccountID_AccountNum{AccountNum: id.Num}
	}
	put := func(kind hapi.ResponseType, fee hedera.Tinybar) (*hapi.CryptoGetInfoResponse, error) {
		id, _ := c.ids.next(payer.ID, time.Now())
		payment := draft{operation: transfer(payer.ID, n.id, fee), id: id, maxFee: maxQueryFee, signer: payer}
		signed, err := payment.sign(n.id)
		if err != nil {
			return nil, err
		}
		header := &hapi.QueryHeader{Payment: signed, ResponseType: &kind}
		query := &hapi.Query{Query: &hapi.Query_CryptoGetInfo{CryptoGetInfo: &hapi.CryptoGetInfoQuery{Header: header, AccountID: account}}}
		found, err := ask(ctx, c, n, hapi.MethodGetAccountInfo, query, (*hapi.Response).GetCryptoGetInfo)
		if err != nil {
			return nil, fmt.Errorf("account %s: %w", address, err)
		}
		return found, nil
	}
	price, err := put(hapi.ResponseType_COST_ANSWER, 0)
	if err != nil {
		return 0, err
	}
	cost := hedera.Tinybar(price.GetHeader().GetCost())
	if cost < 0 || cost > maxQueryFee {
		return 0, fmt.Errorf("node %s wants %d tinybar for an answer", n.id, cost)
	}
	found, err := put(hapi.ResponseType_ANSWER_ONLY, cost+cost/10) // a tenth more, because the price may have risen meanwhile
	if err != nil {
		return 0, err
	}
	info := found.GetAccountInfo()
	if info == nil || info.GetEthereumNonce() < 0 {
		return 0, fmt.Errorf("node %s: the answer has no account", at)
	}
	return uint64(info.GetEthereumNonce()), nil
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
	answer, err := ask(ctx, c, n, hapi.MethodCryptoGetBalance, &hapi.Query{Query: &hapi.Query_CryptogetAccountBalance{
		CryptogetAccountBalance: &hapi.CryptoGetAccountBalanceQuery{
			Header:        &hapi.QueryHeader{ResponseType: hapi.ResponseType_ANSWER_ONLY.Enum()},
			BalanceSource: &hapi.CryptoGetAccountBalanceQuery_AccountID{AccountID: account.AccountID()},
		},
	}}, (*hapi.Response).GetCryptogetAccountBalance)
	if err != nil {
		return 0, fmt.Errorf("balance of account %s: %w", account, err)
	}
	return hedera.Tinybar(answer.GetBalance()), nil
}

// Active asks one node, at no cost, whether it takes anything at all now: OK, or why not, such as PLATFORM_NOT_ACTIVE, which a node answers to
// queries as it does to transactions. A node that is busy is active. An error says that it gave no answer.
func (c *Client) Active(ctx context.Context, at hedera.ID) (hedera.Status, error) {
	n := c.nodes.find(at)
	if n == nil {
		return hapi.ResponseCodeEnum_UNKNOWN, fmt.Errorf("node %s: %w", at, errNotListed)
	}
	// Any id will do: what became of it is not of interest.
	id := hedera.TransactionID{Payer: at, ValidStart: hedera.TimestampOf(time.Now())}
	response, err := c.put(ctx, n, hapi.MethodGetTransactionReceipts, receiptQuery(id))
	if err != nil {
		return hapi.ResponseCodeEnum_UNKNOWN, err
	}
	if status := response.GetTransactionGetReceipt().GetHeader().GetNodeTransactionPrecheckCode(); notANode(status) {
		return status, nil
	}
	return hapi.ResponseCodeEnum_OK, nil
}

// answer is the part of a response that answers the query.
type answer interface{ GetHeader() *hapi.ResponseHeader }

// ask makes one query, and reads its answer.
func ask[T answer](ctx context.Context, c *Client, n *node, method string, query *hapi.Query, read func(*hapi.Response) T) (found T, err error) {
	response, err := c.put(ctx, n, method, query)
	if err != nil {
		return found, err
	}
	found = read(response)
	switch status := found.GetHeader().GetNodeTransactionPrecheckCode(); status {
	case hapi.ResponseCodeEnum_OK:
		if found.GetHeader() == nil {
			return found, fmt.Errorf("node %s: what it answers was not asked", n.id)
		}
		return found, nil
	case hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID, hapi.ResponseCodeEnum_ACCOUNT_ID_DOES_NOT_EXIST, hapi.ResponseCodeEnum_ACCOUNT_DELETED:
		return found, fmt.Errorf("node %s: %w", n.id, ErrNoAccount)
	default:
		return found, fmt.Errorf("node %s: %s", n.id, status)
	}
}

// put makes one query, whose response is still to be read.
func (c *Client) put(ctx context.Context, n *node, method string, query *hapi.Query) (*hapi.Response, error) {
	conn, err := n.ready(ctx, forQueries, c.pace.wake)
	if err != nil {
		return nil, err
	}
	response := new(hapi.Response)
	if err := call(ctx, conn, method, query, nil, response); err != nil {
		return nil, fmt.Errorf("node %s: %w", n.id, err)
	}
	return response, nil
}

// transfer moves tinybars from one account to another.
func transfer(from, to hedera.ID, amount hedera.Tinybar) operation {
	return operation{hapi.MethodCryptoTransfer, &hapi.TransactionBody{Data: &hapi.TransactionBody_CryptoTransfer{
		CryptoTransfer: &hapi.CryptoTransferTransactionBody{Transfers: &hapi.TransferList{AccountAmounts: []*hapi.AccountAmount{
			{AccountID: from.AccountID(), Amount: -int64(amount)}, {AccountID: to.AccountID(), Amount: int64(amount)},
		}}},
	}}}
}
