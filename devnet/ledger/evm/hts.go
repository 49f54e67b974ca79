package evm

import (
	"strings"

	"lockstep/devnet/ledger/sysabi"
	"lockstep/devnet/ledger/tokens"
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
