package evm

import (
	"encoding/binary"

	"github.com/ethereum/go-ethereum/common"
	"github.com/holiman/uint256"

	"lockstep/internal/hedera"
)

// Entity numbers of the system contracts.
const (
	NumTokenService    = 0x167
	NumExchangeRate    = 0x168
	NumRandom          = 0x169
	NumAccountService  = 0x16a
	NumScheduleService = 0x16b
	numTokenService2   = 0x16c
	numHooks           = 0x16d
)

// Gas of system contracts. All but the exchange rate's follow from the fee
// schedule on the network; these are close at the default prices.
const (
	ExchangeRateGas = 100
	randomGas       = 11_737
	viewGas         = 1_408
)

// systemContract is one of the network's own contracts. Input that it does not
// know halts the frame: success with nothing would be a lie.
type systemContract struct {
	x    *execution
	name string
	gas  uint64
	run  func(x *execution, selector uint32, args []byte) ([]byte, bool)
}

func (c *systemContract) Name() string { return c.name }

func (c *systemContract) RequiredGas([]byte) uint64 { return c.gas }

func (c *systemContract) Run(input []byte) ([]byte, error) {
	if len(input) < 4 {
		return nil, errHalt
	}
	output, ok := c.run(c.x, binary.BigEndian.Uint32(input), input[4:])
	if !ok {
		return nil, errHalt
	}
	return output, nil
}

func (x *execution) addSystemContracts() {
	unknown := func(*execution, uint32, []byte) ([]byte, bool) { return nil, false }
	for num, c := range map[int64]*systemContract{
		NumExchangeRate: {x: x, name: "exchange rate", gas: ExchangeRateGas, run: exchangeRate},
		NumRandom:       {x: x, name: "random seed", gas: randomGas, run: randomSeed},
		numHooks:        {x: x, name: "hooks", gas: viewGas, run: unknown},
	} {
		x.precompiles[hedera.Entity(num).LongZero()] = c
	}
	for _, num := range []int64{NumTokenService, numTokenService2} {
		x.precompiles[hedera.Entity(num).LongZero()] = &serviceProxy{x: x, functions: x.tokens}
	}
	x.precompiles[hedera.Entity(NumAccountService).LongZero()] = &serviceProxy{x: x, functions: x.accounts}
	x.precompiles[hedera.Entity(NumScheduleService).LongZero()] = &serviceProxy{x: x, functions: x.schedules}
}

// exchangeRate converts between tinybar and tinycents.
func exchangeRate(x *execution, selector uint32, args []byte) ([]byte, bool) {
	const (
		tinycentsToTinybars = 0x2e3cff6a
		tinybarsToTinycents = 0x43a88229
	)
	if len(args) != 32 {
		return nil, false
	}
	var amount uint256.Int
	amount.SetBytes32(args)
	rate := x.net.Rate
	hbar, cents := uint256.NewInt(uint64(rate.Hbar)), uint256.NewInt(uint64(rate.Cents))
	var overflow bool
	switch selector {
	case tinycentsToTinybars:
		_, overflow = amount.MulDivOverflow(&amount, hbar, cents)
	case tinybarsToTinycents:
		_, overflow = amount.MulDivOverflow(&amount, cents, hbar)
	default:
		return nil, false
	}
	return words(amount), !overflow
}

// randomSeed gives the same seed throughout a transaction.
func randomSeed(x *execution, selector uint32, _ []byte) ([]byte, bool) {
	const getPseudorandomSeed = 0xd83bf9a1
	return common.CopyBytes(x.env.Seed[:32]), selector == getPseudorandomSeed
}

// words is the ABI encoding of static values.
func words(values ...uint256.Int) []byte {
	out := make([]byte, 0, 32*len(values))
	for _, v := range values {
		word := v.Bytes32()
		out = append(out, word[:]...)
	}
	return out
}
