package mirrorrest

import (
	"iter"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hedera"
)

// nftOf writes an NFT. Those of a deleted token count as deleted.
func nftOf(n *state.NFT, t *state.Token) object {
	return object{
		"account_id": idText(n.Owner), "created_timestamp": timeText(n.Created), "deleted": n.Deleted || t.Deleted,
		"delegating_spender": idText(n.Delegating), "metadata": base64Text(n.Metadata), "modified_timestamp": timeText(n.Modified), "serial_number": n.Serial,
		"spender": idText(n.Spender), "token_id": n.Token.String(),
	}
}

func serials() column[*state.NFT] {
	return byNumber("serialnumber", func(n *state.NFT) int64 { return n.Serial })
}

// listTokenNFTs answers tokens/{tokenId}/nfts.
func listTokenNFTs(r *request, q *query, num int64) (any, error) {
	t, known := r.view.Token(hedera.Entity(num))
	owners, numbers := q.bounds("account.id", r.party), q.bounds("serialnumber", parseCount)
	low, high := numbers.span()
	rows := where(r.view.NFTs(hedera.Entity(num), low, high, q.desc), func(n *state.NFT) bool { return known && owners.allows(n.Owner.Num) })
	return list(r, q, "nfts", rows, func(n *state.NFT) any { return nftOf(n, &t) }, serials()), nil
}

// nftArg finds the NFT that the path names.
func (r *request) nftArg() (state.NFT, error) {
	num, err := r.tokenNumber()
	if err != nil {
		return state.NFT{}, err
	}
	serial, ok := parseCount(r.args[1])
	if !ok || serial == 0 {
		return state.NFT{}, invalidParameter("serialNumber")
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

// listNFTTransactions answers tokens/{tokenId}/nfts/{serialNumber}/transactions.
func listNFTTransactions(r *request, q *query, n state.NFT) (any, error) {
	times := q.timestamps()
	return list(r, q, "transactions", moves(r.records(&times, q.desc), &n), func(m nftMove) any {
		return object{
			"consensus_timestamp": m.Consensus.String(), "is_approval": m.move.Approval, "nonce": m.ID.Nonce,
			"receiver_account_id": idText(m.move.Receiver), "sender_account_id": idText(m.move.Sender), "transaction_id": m.ID.Mirror(), "type": m.Kind,
		}
	}, byTime(func(m nftMove) hedera.Timestamp { return m.Consensus })), nil
}

// nftMove is what a record says of an NFT.
type nftMove struct {
	*ledger.Record
	move ledger.NFTTransfer
}

// moves yields the records that changed an NFT's owner.
func moves(records iter.Seq[*ledger.Record], n *state.NFT) iter.Seq[nftMove] {
	return func(yield func(nftMove) bool) {
		for rec := range records {
			for _, t := range rec.Did().NFTs {
				if t.Token == n.Token && t.Serial == n.Serial && !yield(nftMove{rec, t}) {
					return
				}
			}
		}
	}
}

// listAccountNFTs answers accounts/{id}/nfts, by token and serial.
func listAccountNFTs(r *request, q *query, a state.Account) (any, error) {
	spenders := q.bounds("spender.id", r.party)
	rows := where(r.owned(a.ID, q.desc), func(n *state.NFT) bool { return spenders.allows(n.Spender.Num) })
	return list(r, q, "nfts", rows, func(n *state.NFT) any {
		t, _ := r.view.Token(n.Token)
		return nftOf(n, &t)
	}, byID("token.id", tokenNumber, func(n *state.NFT) hedera.ID { return n.Token }), serials()), nil
}

// owned yields the NFTs that an account owns.
func (r *request) owned(account hedera.ID, descending bool) iter.Seq[*state.NFT] {
	return func(yield func(*state.NFT) bool) {
		for rel := range r.view.Relations(account, descending) {
			t, known := r.view.Token(rel.Token)
			if !known || !t.NonFungible || rel.Balance == 0 {
				continue
			}
			for n := range r.view.NFTs(t.ID, 1, t.LastSerial, descending) {
				if n.Owner == account && !n.Deleted && !yield(n) {
					return
				}
			}
		}
	}
}
