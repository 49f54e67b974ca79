package eth

import "bytes"

// Gas rules that hold before a transaction runs.
const (
	TxGas                = 21_000
	createGas            = 32_000
	initcodeWordGas      = 2
	tokenGas             = 4  // a zero byte is one token, any other four
	floorTokenGas        = 10 // EIP-7623
	accessAddressGas     = 2_400
	accessStorageKeyGas  = 1_900
	tokensPerNonZeroByte = 4
)

// AuthorizationGas is what each authorization of a type 4 transaction needs (EIP-7702).
const AuthorizationGas = 25_000

// MaxInitcodeSize is the EIP-3860 limit on the init code of a creation, in bytes.
const MaxInitcodeSize = 49_152

// DataGas returns the gas that call data or init code costs before anything runs, that of the transaction itself
// included, and the least that a transaction with it is charged, however little it does (EIP-7623). Access lists and
// authorizations are not part of either.
func DataGas(data []byte, creation bool) (standard, floor uint64) {
	zeros := uint64(bytes.Count(data, []byte{0}))
	tokens := zeros + tokensPerNonZeroByte*(uint64(len(data))-zeros)
	standard = TxGas + tokenGas*tokens
	if creation {
		standard += createGas + initcodeWordGas*((uint64(len(data))+31)/32)
	}
	return standard, TxGas + floorTokenGas*tokens
}

// IntrinsicGas returns the gas that a transaction needs before it runs: the
// larger of the classic intrinsic cost and the call data floor of EIP-7623.
func IntrinsicGas(t *Tx) uint64 {
	standard, floor := DataGas(t.Data(), t.To() == nil)
	standard += accessAddressGas*uint64(t.accesses) + accessStorageKeyGas*uint64(t.storageKeys)
	standard += AuthorizationGas * uint64(t.authorizations)
	return max(standard, floor)
}
