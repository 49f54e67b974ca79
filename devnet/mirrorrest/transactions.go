package mirrorrest

import (
	"encoding/base64"
	"iter"
	"slices"
	"strings"

	"lockstep/devnet/ledger"
	"lockstep/internal/hedera"
)

type transactionJSON struct {
	BatchKey                    *keyJSON            `json:"batch_key"`
	Bytes                       *string             `json:"bytes"`
	ChargedTxFee                hedera.Tinybar      `json:"charged_tx_fee"`
	ConsensusTimestamp          string              `json:"consensus_timestamp"`
	EntityID                    *string             `json:"entity_id"`
	HighVolume                  bool                `json:"high_volume"`
	HighVolumePricingMultiplier *int64              `json:"high_volume_pricing_multiplier"`
	MaxCustomFees               []struct{}          `json:"max_custom_fees"`
	MaxFee                      string              `json:"max_fee"`
	MemoBase64                  string              `json:"memo_base64"`
	Name                        ledger.Kind         `json:"name"`
	NFTTransfers                []nftTransferJSON   `json:"nft_transfers"`
	Node                        *string             `json:"node"`
	Nonce                       int32               `json:"nonce"`
	ParentConsensusTimestamp    *string             `json:"parent_consensus_timestamp"`
	Result                      string              `json:"result"`
	Scheduled                   bool                `json:"scheduled"`
	StakingRewardTransfers      []struct{}          `json:"staking_reward_transfers"`
	TokenTransfers              []tokenTransferJSON `json:"token_transfers"`
	TransactionHash             string              `json:"transaction_hash"`
	TransactionID               string              `json:"transaction_id"`
	Transfers                   []transferJSON      `json:"transfers"`
	ValidDurationSeconds        string              `json:"valid_duration_seconds"`
	ValidStartTimestamp         string              `json:"valid_start_timestamp"`
}

type transferJSON struct {
	Account    string         `json:"account"`
	Amount     hedera.Tinybar `json:"amount"`
	IsApproval bool           `json:"is_approval"`
}

type tokenTransferJSON struct {
	Account    string `json:"account"`
	Amount     int64  `json:"amount"`
	IsApproval bool   `json:"is_approval"`
	TokenID    string `json:"token_id"`
}

type nftTransferJSON struct {
	IsApproval        bool    `json:"is_approval"`
	ReceiverAccountID *string `json:"receiver_account_id"`
	SenderAccountID   *string `json:"sender_account_id"`
	SerialNumber      int64   `json:"serial_number"`
	TokenID           string  `json:"token_id"`
}

type assessedFeeJSON struct {
	Amount                   int64    `json:"amount"`
	CollectorAccountID       string   `json:"collector_account_id"`
	EffectivePayerAccountIDs []string `json:"effective_payer_account_ids"`
	TokenID                  *string  `json:"token_id"`
}

type transactionsJSON struct {
	Transactions []transactionJSON `json:"transactions"`
	paged
}

// A detailedTransactionJSON is a transaction as its own endpoint writes it.
type detailedTransactionJSON struct {
	transactionJSON
	AssessedCustomFees []assessedFeeJSON `json:"assessed_custom_fees"`
}

func transactionOf(rec *ledger.Record) transactionJSON {
	none, parent := []struct{}{}, rec.Parent
	if !rec.Batch.IsZero() {
		parent = rec.Batch
	}
	out := transactionJSON{
		BatchKey:                 keyOf(rec.BatchKey),
		ChargedTxFee:             rec.Fee,
		ConsensusTimestamp:       rec.Consensus.String(),
		EntityID:                 idText(rec.Entity),
		MaxCustomFees:            none,
		MaxFee:                   decimal(int64(rec.MaxFee)),
		MemoBase64:               base64Text([]byte(rec.Memo)),
		Name:                     rec.Kind,
		NFTTransfers:             []nftTransferJSON{},
		Node:                     idText(rec.Node),
		Nonce:                    rec.ID.Nonce,
		ParentConsensusTimestamp: timeText(parent),
		Result:                   rec.Status.String(),
		Scheduled:                rec.ID.Scheduled,
		StakingRewardTransfers:   none,
		TokenTransfers:           []tokenTransferJSON{},
		TransactionHash:          base64Text(rec.Hash[:]),
		TransactionID:            rec.ID.Mirror(),
		Transfers:                make([]transferJSON, len(rec.Transfers)),
		ValidDurationSeconds:     decimal(rec.ValidDuration),
		ValidStartTimestamp:      rec.ID.ValidStart.String(),
	}
	for i, t := range rec.Transfers {
		out.Transfers[i] = transferJSON{Account: t.Account.String(), Amount: t.Amount, IsApproval: t.Approval}
	}
	for _, t := range rec.Did().Tokens {
		out.TokenTransfers = append(out.TokenTransfers, tokenTransferJSON{t.Account.String(), t.Amount, t.Approval, t.Token.String()})
	}
	for _, t := range rec.Did().NFTs {
		out.NFTTransfers = append(out.NFTTransfers, nftTransferJSON{
			t.Approval, idText(t.Receiver), idText(t.Sender), t.Serial, t.Token.String(),
		})
	}
	return out
}

func assessedOf(rec *ledger.Record) []assessedFeeJSON {
	list := []assessedFeeJSON{}
	for _, f := range rec.Did().Fees {
		list = append(list, assessedFeeJSON{f.Amount, f.Collector.String(), idTexts(f.Payers), idText(f.Token)})
	}
	return list
}

// listTransactions answers transactions.
func listTransactions(r *request) (any, error) {
	q, err := r.query(params{
		"account.id":      isEntity,
		"result":          oneOf("success", "fail"),
		"timestamp":       isTime,
		"transactiontype": isTransactionType,
		"type":            oneOf("credit", "debit"),
	}, descending)
	if err != nil {
		return nil, err
	}
	times := q.timestamps()
	records := everything(r.view, &times, q.desc)
	if ids := q.bounds("account.id", parseEntity); ids.exact() {
		records = ordered(r.index.party(r.view, ids.among[0]), &times, q.desc)
	}
	out := transactionsJSON{}
	out.Transactions, out.Links = r.transactions(q, times, records)
	return out, nil
}

// transactions lists those of the records that the filters of a query let pass.
func (r *request) transactions(q *query, times bounds, records iter.Seq[*ledger.Record]) ([]transactionJSON, links) {
	list := []transactionJSON{}
	allows := transactionFilter(q)
	for rec := range records {
		if !allows(rec) {
			continue
		}
		if list = append(list, transactionOf(rec)); len(list) == q.limit {
			full := !times.ends(rec.Consensus.UnixNano(), q.desc)
			return list, q.next(r.self(), full, cursor{name: "timestamp", value: rec.Consensus.String()})
		}
	}
	return list, links{}
}

// transactionFilter is the filters of a list other than those on time.
func transactionFilter(q *query) func(*ledger.Record) bool {
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

	return func(rec *ledger.Record) bool {
		if len(kinds) > 0 && !slices.Contains(kinds, string(rec.Kind)) {
			return false
		}
		if byResult && strings.EqualFold(result, "success") != hedera.Succeeded(rec.Status) {
			return false
		}
		moved := slices.ContainsFunc(rec.Transfers, func(t ledger.Transfer) bool {
			return accounts.allows(t.Account.Num) && (!byDirection || t.Amount > 0 == credit)
		}) || slices.ContainsFunc(rec.Did().Tokens, func(t ledger.TokenTransfer) bool {
			return accounts.allows(t.Account.Num) && (!byDirection || t.Amount > 0 == credit)
		})
		return moved || !byDirection && (!byAccount || accounts.allows(rec.ID.Payer.Num))
	}
}

// getTransaction answers transactions/{transactionIdOrHash}: the transaction, its
// duplicates and its children, by consensus time.
func getTransaction(r *request) (any, error) {
	q, err := r.query(params{"nonce": isExactCount, "scheduled": isFlag}, single)
	if err != nil {
		return nil, err
	}
	records, err := r.transactionArg()
	if err != nil {
		return nil, err
	}
	nonces := q.bounds("nonce", parseCount)
	_, bySchedule := q.last("scheduled")
	list := []detailedTransactionJSON{}
	for _, rec := range records {
		if nonces.allows(int64(rec.ID.Nonce)) && (!bySchedule || rec.ID.Scheduled == q.flag("scheduled", false)) {
			list = append(list, detailedTransactionJSON{transactionOf(rec), assessedOf(rec)})
		}
	}
	if len(list) == 0 {
		return nil, notFound()
	}
	return struct {
		Transactions []detailedTransactionJSON `json:"transactions"`
	}{list}, nil
}

// transactionArg finds the records that the path names by a transaction id or by
// the 48-byte hash in hex or base 64.
func (r *request) transactionArg() ([]*ledger.Record, error) {
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
