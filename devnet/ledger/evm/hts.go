package evm

import (
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/devnet/ledger/accounts"
	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/sysabi"
	"lockstep/devnet/ledger/tokens"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// Gas of the token service: the price of the transaction that a call stands for at the
// default fee schedule, in gas, and a fifth more.
const (
	tokenGas     = 14_084  // what costs a tenth of a cent
	nftMintGas   = 281_690 // for each NFT
	associateGas = 704_225
	approveGas   = 704_225

	// CreateFee is what the creation of a token costs, a dollar, in tinybar at the rate
	// of genesis. Contracts send it along; it goes where fees go.
	CreateFee = 100 * hedera.Hbar / 12
)

// Expand replaces the names of structures in a signature by what they are.
func Expand(signature string) string {
	const (
		key     = "(uint256,(bool,address,bytes,bytes,address))[]"
		token   = "(string,string,address,string,bool,int64,bool," + key + ",(int64,address,int64))"
		tokenV1 = "(string,string,address,string,bool,uint32,bool," + key + ",(uint32,address,uint32))"
		tokenV2 = "(string,string,address,string,bool,int64,bool," + key + ",(uint32,address,uint32))"
		tokenM  = "(string,string,address,string,bool,int64,bool," + key + ",(int64,address,int64),bytes)"
		fixed   = "(int64,address,bool,bool,address)[]"
		fixed1  = "(uint32,address,bool,bool,address)[]"
		part    = "(int64,int64,int64,int64,bool,address)[]"
		part1   = "(uint32,uint32,uint32,uint32,bool,address)[]"
		royal   = "(int64,int64,int64,address,bool,address)[]"
		royal1  = "(uint32,uint32,uint32,address,bool,address)[]"
		info    = "(" + token + ",int64,bool,bool,bool," + fixed + "," + part + "," + royal + ",string)"
	)
	return strings.NewReplacer(
		"TOKENV1", tokenV1, "TOKENV2", tokenV2, "TOKENM", tokenM, "TOKEN", token, "KEYS", key, "FIXED1", fixed1, "FIXED", fixed,
		"PART1", part1, "PART", part, "ROYAL1", royal1, "ROYAL", royal, "INFO", info,
	).Replace(signature)
}

// NewTokenFunctions are the functions of the token service.
func NewTokenFunctions() *serviceFunctions {
	const redirectForToken = 0x618dc65e
	return newServiceFunctions("token service", redirectForToken, directCalls, facadeCalls)
}

// mintPrice is that of a mint: each NFT has its own.
func mintPrice(_ *execution, args []sysabi.Value) uint64 {
	if n := len(args[2].List); n > 0 {
		return nftMintGas * uint64(min(n, tokens.MaxTokenBatch+1))
	}
	return tokenGas
}

// The events of ERC-20 and ERC-721, which tokens leave although no contract emits them.
var (
	topicTransfer       = common.HexToHash("0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef")
	topicApproval       = common.HexToHash("0x8c5be1e5ebec7d5bd14f71427d1e84f3dd0314c0f7b2291e5b200ac8c7c3b925")
	topicApprovalForAll = common.HexToHash("0x17307eab39ab6107e8899845ad3d59bd9653f200f220920489ca2b5937696c31")
)

// transferLogs are the events of what changed hands: one for each NFT, and for fungible
// tokens one for each receiver where there is one sender.
func transferLogs(o *core.Work, did *history.Effects) (logs []*types.Log) {
	at := func(id hedera.ID) common.Hash {
		if id.IsZero() {
			return common.Hash{}
		}
		return common.BytesToHash(o.EntityAccount(id.Num).Address.Bytes())
	}
	for i := 0; i < len(did.Tokens); {
		end := i
		var from []history.TokenTransfer
		for end < len(did.Tokens) && did.Tokens[end].Token == did.Tokens[i].Token {
			if did.Tokens[end].Amount < 0 {
				from = append(from, did.Tokens[end])
			}
			end++
		}
		if len(from) == 1 {
			for _, t := range did.Tokens[i:end] {
				if t.Amount > 0 {
					logs = append(logs, &types.Log{
						Address: t.Token.LongZero(), Topics: []common.Hash{topicTransfer, at(from[0].Account), at(t.Account)},
						Data: sysabi.Word(t.Amount).Bytes(),
					})
				}
			}
		}
		i = end
	}
	for _, n := range did.NFTs {
		logs = append(logs, &types.Log{
			Address: n.Token.LongZero(), Topics: []common.Hash{topicTransfer, at(n.Sender), at(n.Receiver), sysabi.Word(n.Serial)},
		})
	}
	return logs
}

// logApproval makes the event of an approval that succeeded.
func (c *serviceCall) logApproval(status hedera.Status, id *hapi.TokenID, owner, spender common.Address, amount int64, nft bool) {
	if status != okay {
		return
	}
	log := &types.Log{
		Address: hedera.Entity(id.GetTokenNum()).LongZero(),
		Topics:  []common.Hash{topicApproval, common.BytesToHash(owner[:]), common.BytesToHash(c.x.o.Canonical(spender).Bytes())},
	}
	if nft {
		log.Topics = append(log.Topics, sysabi.Word(amount))
	} else {
		log.Data = sysabi.Word(amount).Bytes()
	}
	c.logs = append(c.logs, log)
}

func approvalForAllLog(id *hapi.TokenID, owner, spender common.Address, approved bool) *types.Log {
	return &types.Log{
		Address: hedera.Entity(id.GetTokenNum()).LongZero(),
		Topics:  []common.Hash{topicApprovalForAll, common.BytesToHash(owner[:]), common.BytesToHash(spender[:])},
		Data:    sysabi.Bool(approved).Word.Bytes(),
	}
}

// SyntheticLogs are the events that the mirror node makes of a transaction on tokens
// without a contract.
func SyntheticLogs(h *core.Handling) []*history.Log {
	if h.Record.Status != okay || h.Record.Result != nil {
		return nil
	}
	raw := transferLogs(h.State, supplied(h))
	if approve := h.Sub.Body.GetCryptoApproveAllowance(); approve != nil {
		raw = append(raw, approvalLogs(h, approve)...)
	}
	logs, _ := logs(h, raw)
	return logs
}

// supplied is what a transaction did with a partner for what came into being or ceased to
// exist: the zero address.
func supplied(h *core.Handling) *history.Effects {
	switch h.Record.Kind {
	case history.KindTokenCreate, history.KindTokenMint, history.KindTokenBurn, history.KindTokenWipe:
	default:
		return h.Record.Did()
	}
	did := *h.Record.Did()
	did.Tokens = append([]history.TokenTransfer(nil), did.Tokens...)
	for _, t := range h.Record.Did().Tokens {
		did.Tokens = append(did.Tokens, history.TokenTransfer{Token: t.Token, Amount: -t.Amount})
	}
	return &did
}

func approvalLogs(h *core.Handling, body *hapi.CryptoApproveAllowanceTransactionBody) (logs []*types.Log) {
	parties := func(owner, spender *hapi.AccountID) (common.Address, common.Address) {
		from, to, _ := accounts.Grantor(h, owner, spender, true)
		return from.Address, to.Address
	}
	for _, a := range body.GetTokenAllowances() {
		from, to := parties(a.GetOwner(), a.GetSpender())
		logs = append(logs, &types.Log{
			Address: hedera.Entity(a.GetTokenId().GetTokenNum()).LongZero(), Data: sysabi.Word(a.GetAmount()).Bytes(),
			Topics: []common.Hash{topicApproval, common.BytesToHash(from[:]), common.BytesToHash(to[:])},
		})
	}
	for _, a := range body.GetNftAllowances() {
		from, to := parties(a.GetOwner(), a.GetSpender())
		if all := a.GetApprovedForAll(); all != nil {
			logs = append(logs, approvalForAllLog(a.GetTokenId(), from, to, all.GetValue()))
		}
		for _, serial := range a.GetSerialNumbers() {
			logs = append(logs, &types.Log{
				Address: hedera.Entity(a.GetTokenId().GetTokenNum()).LongZero(),
				Topics:  []common.Hash{topicApproval, common.BytesToHash(from[:]), common.BytesToHash(to[:]), sysabi.Word(serial)},
			})
		}
	}
	return logs
}
