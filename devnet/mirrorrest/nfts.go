package mirrorrest

import (
	"iter"

	"lockstep/devnet/ledger"
	"lockstep/internal/hedera"
)

type nftJSON struct {
	AccountID         *string `json:"account_id"`
	CreatedTimestamp  *string `json:"created_timestamp"`
	DelegatingSpender *string `json:"delegating_spender"`
	Deleted           bool    `json:"deleted"`
	Metadata          string  `json:"metadata"`
	ModifiedTimestamp *string `json:"modified_timestamp"`
	SerialNumber      int64   `json:"serial_number"`
	Spender           *string `json:"spender"`
	TokenID           string  `json:"token_id"`
}

type nftsJSON struct {
	NFTs []nftJSON `json:"nfts"`
	paged
}

// nftOf writes an NFT. Those of a deleted token count as deleted.
func nftOf(n *ledger.NFT, t *ledger.Token) nftJSON {
	return nftJSON{
		AccountID: idText(n.Owner), CreatedTimestamp: timeText(n.Created), Deleted: n.Deleted || t.Deleted,
		DelegatingSpender: idText(n.Delegating), Metadata: base64Text(n.Metadata), ModifiedTimestamp: timeText(n.Modified), SerialNumber: n.Serial,
		Spender: idText(n.Spender), TokenID: n.Token.String(),
	}
}

// listTokenNFTs answers tokens/{tokenId}/nfts.
func listTokenNFTs(r *request) (any, error) {
	q, err := r.query(params{"account.id": isParty, "serialnumber": isCount}, descending)
	if err != nil {
		return nil, err
	}
	num, err := r.tokenNumber()
	if err != nil {
		return nil, err
	}
	out := nftsJSON{NFTs: []nftJSON{}}
	t, known := r.view.Token(hedera.Entity(num))
	if !known {
		return out, nil
	}
	owners, serials := q.bounds("account.id", r.party), q.bounds("serialnumber", parseCount)
	low, high := serials.span()
	var last int64
	for n := range r.view.NFTs(t.ID, low, high, q.desc) {
		if !serials.allows(n.Serial) || !owners.allows(n.Owner.Num) {
			continue
		}
		last = n.Serial
		if out.NFTs = append(out.NFTs, nftOf(n, &t)); len(out.NFTs) == q.limit {
			break
		}
	}
	full := len(out.NFTs) == q.limit && !serials.ends(last, q.desc)
	out.Links = q.next(r.self(), full, cursor{name: "serialnumber", value: decimal(last)})
	return out, nil
}

// nftArg finds the NFT that the path names.
func (r *request) nftArg() (ledger.NFT, error) {
	num, err := r.tokenNumber()
	if err != nil {
		return ledger.NFT{}, err
	}
	serial, ok := parseCount(r.args[1])
	if !ok || serial == 0 {
		return ledger.NFT{}, invalidParameter("serialNumber")
	}
	return found(r.view.NFT(hedera.Entity(num), serial))
}

// getNFT answers tokens/{tokenId}/nfts/{serialNumber}.
func getNFT(r *request) (any, error) {
	n, err := r.nftArg()
	if err != nil {
		return nil, err
	}
	t, _ := r.view.Token(n.Token)
	return nftOf(&n, &t), nil
}

type nftTransactionJSON struct {
	ConsensusTimestamp string      `json:"consensus_timestamp"`
	IsApproval         bool        `json:"is_approval"`
	Nonce              int32       `json:"nonce"`
	ReceiverAccountID  *string     `json:"receiver_account_id"`
	SenderAccountID    *string     `json:"sender_account_id"`
	TransactionID      string      `json:"transaction_id"`
	Type               ledger.Kind `json:"type"`
}

// listNFTTransactions answers tokens/{tokenId}/nfts/{serialNumber}/transactions.
func listNFTTransactions(r *request) (any, error) {
	q, err := r.query(params{"timestamp": isTime}, descending)
	if err != nil {
		return nil, err
	}
	n, err := r.nftArg()
	if err != nil {
		return nil, err
	}
	times := q.timestamps()
	out := struct {
		Transactions []nftTransactionJSON `json:"transactions"`
		paged
	}{Transactions: []nftTransactionJSON{}}
	for rec, t := range moves(everything(r.view, &times, q.desc), &n) {
		out.Transactions = append(out.Transactions, nftTransactionJSON{
			ConsensusTimestamp: rec.Consensus.String(), IsApproval: t.Approval, Nonce: rec.ID.Nonce,
			ReceiverAccountID: idText(t.Receiver), SenderAccountID: idText(t.Sender), TransactionID: rec.ID.Mirror(), Type: rec.Kind,
		})
		if len(out.Transactions) == q.limit {
			full := !times.ends(rec.Consensus.UnixNano(), q.desc)
			out.Links = q.next(r.self(), full, cursor{name: "timestamp", value: rec.Consensus.String()})
			break
		}
	}
	return out, nil
}

// moves yields the records that changed an NFT's owner.
func moves(records iter.Seq[*ledger.Record], n *ledger.NFT) iter.Seq2[*ledger.Record, ledger.NFTTransfer] {
	return func(yield func(*ledger.Record, ledger.NFTTransfer) bool) {
		for rec := range records {
			for _, t := range rec.Did().NFTs {
				if t.Token == n.Token && t.Serial == n.Serial && !yield(rec, t) {
					return
				}
			}
		}
	}
}

// listAccountNFTs answers accounts/{id}/nfts, by token and serial.
func listAccountNFTs(r *request) (any, error) {
	q, err := r.query(params{"serialnumber": isCount, "spender.id": isParty, "token.id": isParty}, descending)
	if err != nil {
		return nil, err
	}
	a, err := r.accountArg()
	if err != nil {
		return nil, err
	}
	tokens, serials := q.bounds("token.id", tokenNumber), q.bounds("serialnumber", parseCount)
	spenders := q.bounds("spender.id", r.party)
	out := nftsJSON{NFTs: []nftJSON{}}
	for n, t := range r.owned(a.ID, q.desc) {
		if !pairAllowed(&tokens, &serials, t.ID.Num, n.Serial) || !spenders.allows(n.Spender.Num) {
			continue
		}
		if out.NFTs = append(out.NFTs, nftOf(n, t)); len(out.NFTs) == q.limit {
			out.Links = q.next(r.self(), true,
				cursor{name: "token.id", value: t.ID.String(), inclusive: true},
				cursor{name: "serialnumber", value: decimal(n.Serial)})
			break
		}
	}
	return out, nil
}

// owned yields the NFTs that an account owns.
func (r *request) owned(account hedera.ID, descending bool) iter.Seq2[*ledger.NFT, *ledger.Token] {
	return func(yield func(*ledger.NFT, *ledger.Token) bool) {
		for rel := range r.view.Relations(account, descending) {
			t, known := r.view.Token(rel.Token)
			if !known || !t.NonFungible || rel.Balance == 0 {
				continue
			}
			for n := range r.view.NFTs(t.ID, 1, t.LastSerial, descending) {
				if n.Owner == account && !n.Deleted && !yield(n, &t) {
					return
				}
			}
		}
	}
}

// pairAllowed compares (first, second) pairs where both columns order a list: the bounds
// on the second apply at the ends of those on the first only.
func pairAllowed(first, second *bounds, a, b int64) bool {
	switch {
	case !first.allows(a):
		return false
	case first.exact() || !first.ranged() || second.exact():
		return second.allows(b)
	default:
		return (a != first.lo || b >= second.lo) && (a != first.hi || b <= second.hi)
	}
}
