package precheck

import (
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/core/types"

	"lockstep/internal/envx"
	"lockstep/internal/eth"
	"lockstep/internal/hedera"
)

// Config holds the limits an operator may move.
type Config struct {
	CallDataSizeLimit    int    `env:"CALL_DATA_SIZE_LIMIT" envDefault:"131072" min:"0"`            // Maximum length of the call data of a transaction, in bytes.
	TransactionSizeLimit int    `env:"SEND_RAW_TRANSACTION_SIZE_LIMIT" envDefault:"133120" min:"1"` // Longest raw transaction, in bytes.
	MaxGasLimit          uint64 `env:"MAX_TRANSACTION_GAS_LIMIT" envDefault:"15000000" min:"21000"` // Maximum gas one transaction may ask for. Also the factor of the HAPI fee cap and the cap of eth_call.
	AllowSetCode         bool   `env:"TX_TYPE_4_ENABLED" envDefault:"false"`                        // Accept EIP-7702 transactions (type 4). The networks refuse them so far; the development network executes them with --set-code.
	GasPriceTolerance    int64  `env:"GAS_PRICE_TINY_BAR_BUFFER" envDefault:"10000000000" min:"0"`  // How far below the network's gas price an offer may be, in weibar (the name is historical).

	// Send large call data inside the transaction. false is for networks that take no
	// such transactions: call data longer than FILE_APPEND_CHUNK_SIZE then goes into a
	// file of the network first, which the operator pays for and which is deleted afterwards.
	Jumbo bool `env:"JUMBO_TX_ENABLED" envDefault:"true"`
	// The longest call data, in bytes, that is not put into a file, and the length, in
	// hexadecimal digits, of the pieces in which a file is written. The network takes
	// transactions of up to 6144 bytes from ordinary accounts.
	FileChunkSize int `env:"FILE_APPEND_CHUNK_SIZE" envDefault:"5120"`
	// Maximum number of pieces that are appended to a file after the one it is created with.
	FileMaxChunks int `env:"FILE_APPEND_MAX_CHUNKS" envDefault:"20"`
}

// Rules are the limits plus the chain they are for.
type Rules struct {
	Config
	ChainID uint64
}

var oneTinybar = big.NewInt(hedera.WeibarPerTinybar)

// Stateless checks what needs no look-up: sizes, type, gas limit, chain id, value
// and authorization list, in this order.
func Stateless(tx *eth.Tx, rules Rules) error {
	for _, check := range []func(*eth.Tx, Rules) *eth.Error{sizes, txType, gasLimit, chainID, value, authorizations} {
		if err := check(tx, rules); err != nil {
			return err
		}
	}
	return nil
}

func sizes(tx *eth.Tx, rules Rules) *eth.Error {
	data := len(tx.Data())
	switch {
	case data > rules.CallDataSizeLimit:
		return eth.ErrCallDataSize(data, rules.CallDataSizeLimit)
	case tx.To() == nil && data > eth.MaxInitcodeSize:
		return eth.ErrInitcodeSize(data, eth.MaxInitcodeSize)
	case rules.InFile(tx) && data > rules.fileLimit():
		return eth.ErrCallDataSize(data, rules.fileLimit())
	case len(tx.Raw()) > rules.TransactionSizeLimit:
		return eth.ErrTransactionSize(len(tx.Raw()), rules.TransactionSizeLimit)
	default:
		return nil
	}
}

// InFile tells whether a transaction's call data goes into a file. One with an access
// list or authorizations has no form without its data; it is sent whole, and the network
// says whether it takes it.
func (r Rules) InFile(tx *eth.Tx) bool {
	return !r.Jumbo && r.FileChunkSize > 0 && len(tx.Data()) > r.FileChunkSize &&
		tx.Accesses() == 0 && tx.Type() <= types.DynamicFeeTxType
}

// maxFile is the size of the largest file the network keeps, in bytes.
const maxFile = 1 << 20

// fileLimit is the maximum length of call data that a file can hold, two digits a byte.
func (r Rules) fileLimit() int { return min((1+r.FileMaxChunks)*r.FileChunkSize, maxFile) / 2 }

func txType(tx *eth.Tx, rules Rules) *eth.Error {
	switch tx.Type() {
	case types.LegacyTxType, types.AccessListTxType, types.DynamicFeeTxType:
		return nil
	case types.SetCodeTxType:
		if rules.AllowSetCode {
			return nil
		}
	}
	return eth.ErrTransactionType(tx.Type())
}

func gasLimit(tx *eth.Tx, rules Rules) *eth.Error {
	if tx.Gas() > rules.MaxGasLimit {
		return eth.ErrGasLimitTooHigh(tx.Gas(), rules.MaxGasLimit)
	}
	if intrinsic := eth.IntrinsicGas(tx); tx.Gas() < intrinsic {
		return eth.ErrGasLimitTooLow(tx.Gas(), intrinsic)
	}
	return nil
}

// chainID lets transactions whose signature covers no chain pass on any, as the network
// does: keyless deployments depend on it, and ethers names chain id 0 in types 1 and 2
// when it is not given another.
func chainID(tx *eth.Tx, rules Rules) *eth.Error {
	if !tx.Protected() {
		return nil
	}
	if id := tx.ChainID(); !id.IsUint64() || id.Uint64() != rules.ChainID {
		return eth.ErrChainID(id, rules.ChainID)
	}
	return nil
}

func value(tx *eth.Tx, _ Rules) *eth.Error {
	if v := tx.Value(); v.Sign() != 0 && v.Cmp(oneTinybar) < 0 {
		return eth.ErrValueTooLow
	}
	return nil
}

// authorizations: the decoder already refuses a list outside type 4, and, in the words
// for it, numbers that do not fit and a type 4 creation; what is left is the empty list.
func authorizations(tx *eth.Tx, _ Rules) *eth.Error {
	if tx.Type() == types.SetCodeTxType && tx.Authorizations() == 0 {
		return eth.ErrInvalidParam("authorizationList", "EIP-7702 transaction with empty auth list")
	}
	return nil
}

// Validate reports the limits that make no sense.
func (c Config) Validate() error {
	errs := []error{envx.Check(c)}
	if !c.Jumbo && (c.FileChunkSize < 1 || c.FileChunkSize > maxFile) {
		errs = append(errs, fmt.Errorf("FILE_APPEND_CHUNK_SIZE %d: want 1 to %d", c.FileChunkSize, maxFile))
	}
	if !c.Jumbo && (c.FileMaxChunks < 0 || c.FileMaxChunks > maxFile) {
		errs = append(errs, fmt.Errorf("FILE_APPEND_MAX_CHUNKS %d: want 0 to %d", c.FileMaxChunks, maxFile))
	}
	return errors.Join(errs...)
}
