package mirrorrest

import (
	"lockstep/devnet/ledger"
)

// A resultLogJSON is an event as part of the result it belongs to.
type resultLogJSON struct {
	Address    string   `json:"address"`
	Bloom      string   `json:"bloom"`
	ContractID *string  `json:"contract_id"`
	Data       string   `json:"data"`
	Index      int      `json:"index"`
	Topics     []string `json:"topics"`
}

// A logJSON is an event on its own, with the transaction and block it came from.
type logJSON struct {
	resultLogJSON
	BlockHash        string  `json:"block_hash"`
	BlockNumber      int64   `json:"block_number"`
	RootContractID   *string `json:"root_contract_id"`
	Timestamp        string  `json:"timestamp"`
	TransactionHash  string  `json:"transaction_hash"`
	TransactionIndex *int    `json:"transaction_index"`
}

func resultLogOf(l *ledger.Log) resultLogJSON {
	bloom := l.Bloom()
	out := resultLogJSON{
		Address:    addressText(l.Address),
		Bloom:      hexText(bloom[:]),
		ContractID: idText(l.Contract),
		Data:       hexText(l.Data),
		Index:      l.Index,
		Topics:     make([]string, len(l.Topics)),
	}
	for i := range l.Topics {
		out.Topics[i] = hexText(l.Topics[i][:])
	}
	return out
}

func logOf(l *ledger.Log, rec *ledger.Record, block *ledger.Block) logJSON {
	out := logJSON{
		resultLogJSON: resultLogOf(l),
		BlockHash:     hexText(block.Hash[:]),
		BlockNumber:   block.Number,
		Timestamp:     rec.Consensus.String(),
	}
	out.TransactionHash = hexText(transactionHash(rec))
	switch {
	case rec.Result == nil: // of a token, without a contract
		out.TransactionIndex, out.RootContractID = ptr(rec.Did().Index), idText(l.Contract)
		return out
	case rec.Executed():
		out.TransactionIndex = ptr(rec.Result.Index)
	}
	out.RootContractID = idText(rec.Result.Target)
	return out
}

// transactionHash is the 32-byte hash by which Ethereum clients know a record:
// that of the signed Ethereum transaction, or the start of the native one's.
func transactionHash(rec *ledger.Record) []byte {
	if rec.Result != nil && rec.Result.Raw != nil {
		return rec.EthereumHash[:]
	}
	return rec.Hash[:32]
}
