package mirrorrest

import (
	"encoding/base64"
	"iter"
	"slices"
	"strings"

	"lockstep/devnet/ledger/history"
	"lockstep/internal/hedera"
)

func transactionOf(rec *history.Record) object {
	none, parent := []struct{}{}, rec.Parent
	if !rec.Batch.IsZero() {
		parent = rec.Batch
	}
	return object{
		"batch_key":                      keyOf(rec.BatchKey),
		"bytes":                          nil,
		"charged_tx_fee":                 rec.Fee,
		"consensus_timestamp":            rec.Consensus.String(),
		"entity_id":                      idText(rec.Entity),
		"high_volume":                    false,
		"high_volume_pricing_multiplier": nil,
		"max_custom_fees":                none,
		"max_fee":                        decimal(int64(rec.MaxFee)),
		"memo_base64":                    base64Text([]byte(rec.Memo)),
		"name":                           rec.Kind,
		"nft_transfers": each(rec.Did().NFTs, func(t history.NFTTransfer) object {
			return object{
				"is_approval": t.Approval, "receiver_account_id": idText(t.Receiver), "sender_account_id": idText(t.Sender),
				"serial_number": t.Serial, "token_id": t.Token.String(),
			}
		}),
		"node":                       idText(rec.Node),
		"nonce":                      rec.ID.Nonce,
		"parent_consensus_timestamp": timeText(parent),
		"result":                     rec.Status.String(),
		"scheduled":                  rec.ID.Scheduled,
		"staking_reward_transfers":   none,
		"token_transfers": each(rec.Did().Tokens, func(t history.TokenTransfer) object {
			return object{"account": t.Account.String(), "amount": t.Amount, "is_approval": t.Approval, "token_id": t.Token.String()}
		}),
		"transaction_hash": base64Text(rec.Hash[:]),
		"transaction_id":   rec.ID.Mirror(),
		"transfers": each(rec.Transfers, func(t history.Transfer) object {
			return object{"account": t.Account.String(), "amount": t.Amount, "is_approval": t.Approval}
		}),
		"valid_duration_seconds": decimal(rec.ValidDuration),
		"valid_start_timestamp":  rec.ID.ValidStart.String(),
	}
}

// listTransactions answers transactions.
func listTransactions(r *request, q *query) (any, error) {
	times := q.timestamps()
	return r.transactions(q, r.records(&times, q.desc)), nil
}

// transactions lists those of the records that the filters of a query let pass.
func (r *request) transactions(q *query, records iter.Seq[*history.Record]) object {
	return list(r, q, "transactions", where(records, transactionFilter(q)), func(rec *history.Record) any { return transactionOf(rec) }, consensusTimes())
}

func consensusTimes() column[*history.Record] {
	return byTime(func(rec *history.Record) hedera.Timestamp { return rec.Consensus })
}

// transactionFilter is the filters of a list other than those on time.
func transactionFilter(q *query) func(*history.Record) bool {
	var kinds []string
	for _, f := range q.filters {
		if f.name == "transactiontype" {
			kinds = append(kinds, strings.ToUpper(f.value))
		}
	}
	result, byResult := q.last("result")
	direction, byDirection := q.last("type")
	credit := strings.EqualFold(direction, "credit")
	accounts := q.bounds("account.id", parseEntity)
	_, byAccount := q.last("account.id")

	return func(rec *history.Record) bool {
		if len(kinds) > 0 && !slices.Contains(kinds, string(rec.Kind)) {
			return false
		}
		if byResult && strings.EqualFold(result, "success") != hedera.Succeeded(rec.Status) {
			return false
		}
		moved := slices.ContainsFunc(rec.Transfers, func(t history.Transfer) bool {
			return accounts.allows(t.Account.Num) && (!byDirection || t.Amount > 0 == credit)
		}) || slices.ContainsFunc(rec.Did().Tokens, func(t history.TokenTransfer) bool {
			return accounts.allows(t.Account.Num) && (!byDirection || t.Amount > 0 == credit)
		})
		return moved || !byDirection && (!byAccount || accounts.allows(rec.ID.Payer.Num))
	}
}

// getTransaction answers transactions/{transactionIdOrHash}: the transaction, its
// duplicates and its children, by consensus time.
func getTransaction(r *request, q *query) (any, error) {
	records, err := r.transactionArg()
	if err != nil {
		return nil, err
	}
	nonces := q.bounds("nonce", parseCount)
	_, bySchedule := q.last("scheduled")
	list := []object{}
	for _, rec := range records {
		if nonces.allows(int64(rec.ID.Nonce)) && (!bySchedule || rec.ID.Scheduled == q.flag("scheduled", false)) {
			out := transactionOf(rec)
			out["assessed_custom_fees"] = each(rec.Did().Fees, func(f history.AssessedFee) object {
				return object{
					"amount": f.Amount, "collector_account_id": f.Collector.String(), "effective_payer_account_ids": each(f.Payers, hedera.ID.String), "token_id": idText(f.Token),
				}
			})
			list = append(list, out)
		}
	}
	if len(list) == 0 {
		return nil, notFound()
	}
	return object{"transactions": list}, nil
}

// transactionArg finds the records that the path names by a transaction id or by
// the 48-byte hash in hex or base 64.
func (r *request) transactionArg() ([]*history.Record, error) {
	text := r.args[0]
	if hash, ok := parseHash(text); ok {
		return r.view.RecordsByHash(hash), nil
	}
	if len(text) == base64.StdEncoding.EncodedLen(48) {
		hash, err := base64.URLEncoding.DecodeString(strings.NewReplacer("+", "-", "/", "_").Replace(text))
		if err == nil {
			return r.view.RecordsByHash(hash), nil
		}
	}
	return r.recordsByID(text)
}

// isTransactionType takes the name of any type of transaction, also of those that
// the devnet does not handle and of which a list is therefore empty.
func isTransactionType(op operator, v string) bool {
	return op == eq && strings.Contains(transactionTypes, " "+strings.ToUpper(v)+" ") && !strings.Contains(v, " ")
}

// transactionTypes is the vocabulary of the network.
const transactionTypes = " " +
	"ATOMICBATCH CONSENSUSCREATETOPIC CONSENSUSDELETETOPIC CONSENSUSSUBMITMESSAGE " +
	"CONSENSUSUPDATETOPIC CONTRACTCALL CONTRACTCREATEINSTANCE CONTRACTDELETEINSTANCE " +
	"CONTRACTUPDATEINSTANCE CRSPUBLICATION CRYPTOADDLIVEHASH CRYPTOAPPROVEALLOWANCE " +
	"CRYPTOCREATEACCOUNT CRYPTODELETE CRYPTODELETEALLOWANCE CRYPTODELETELIVEHASH CRYPTOTRANSFER " +
	"CRYPTOUPDATEACCOUNT ETHEREUMTRANSACTION FILEAPPEND FILECREATE FILEDELETE FILEUPDATE FREEZE " +
	"HINTSKEYPUBLICATION HINTSPARTIALSIGNATURE HINTSPREPROCESSINGVOTE " +
	"HISTORYPROOFKEYPUBLICATION HISTORYPROOFSIGNATURE HISTORYPROOFVOTE HOOKSTORE " +
	"LEDGERIDPUBLICATION MIGRATIONROOTHASHVOTE NODECREATE NODEDELETE NODESTAKEUPDATE NODEUPDATE " +
	"REGISTEREDNODECREATE REGISTEREDNODEDELETE REGISTEREDNODEUPDATE SCHEDULECREATE " +
	"SCHEDULEDELETE SCHEDULESIGN STATESIGNATURETRANSACTION SYSTEMDELETE SYSTEMUNDELETE " +
	"TOKENAIRDROP TOKENASSOCIATE TOKENBURN TOKENCANCELAIRDROP TOKENCLAIMAIRDROP TOKENCREATION " +
	"TOKENDELETION TOKENDISSOCIATE TOKENFEESCHEDULEUPDATE TOKENFREEZE TOKENGRANTKYC TOKENMINT " +
	"TOKENPAUSE TOKENREJECT TOKENREVOKEKYC TOKENUNFREEZE TOKENUNPAUSE TOKENUPDATE " +
	"TOKENUPDATENFTS TOKENWIPE UNCHECKEDSUBMIT UTILPRNG "
