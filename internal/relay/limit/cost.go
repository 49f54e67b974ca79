package limit

import (
	"context"
	"math"

	"lockstep/internal/hedera"
)

// What the network charges the payer of an Ethereum transaction besides gas, in gas: a
// node fee of 100,000 tinycents and nine times as much for the network (HIP-1261), while
// a unit of gas is 852 tinycents. Measured in gas it follows the exchange rate.
const envelopeGas = 1_200

// usualGasPrice stands for a gas price that is not known: 71 tinybars and some.
const usualGasPrice hedera.Tinybar = 100

// EthereumCost is the maximum that an Ethereum transaction is expected to cost its payer:
// the network's charge for the envelope, which is refunded for what succeeds, and the
// gas that the payer gives, if it gives any. A gas price of 0 is one that is not known.
//
// The network may charge more, but rarely: up to 21,000 gas for a transaction that it was
// too busy to execute. That is charged to the budget when it is known.
func EthereumCost(gasPrice, offered hedera.Tinybar, gasLimit uint64, allowance hedera.Tinybar) hedera.Tinybar {
	if gasPrice <= 0 {
		gasPrice = usualGasPrice
	}
	gasPrice = min(gasPrice, hedera.Hbar) // far above any network's
	cost := envelopeGas * gasPrice
	if missing := gasPrice - max(offered, 0); allowance > 0 && missing > 0 {
		gas := hedera.Tinybar(min(gasLimit, 1<<32))
		cost += min(allowance, gas*missing)
	}
	return min(cost, greatest/4)
}

// fileCost is what it costs to put call data of some length, in hexadecimal digits, into
// a file by appends of chunk digits each. One ℏ is worth cents per hbars.
func fileCost(digits, chunk int, cents, hbars int64) hedera.Tinybar {
	const (
		create     = 50.184 // US cents
		appendFull = 50.141
		appendBase = -6.201
		perDigit   = 0.011
	)
	if digits <= 0 || chunk <= 0 || cents <= 0 || hbars <= 0 {
		return 0
	}
	price := create + appendFull*float64(digits/chunk-1) + appendBase + perDigit*float64(digits%chunk)
	return hedera.Tinybar(math.Round(max(price, 0) * float64(hbars) / float64(cents) * float64(hedera.Hbar)))
}

// rate is what ℏ are worth: hbars of them are worth cents.
type rate struct{ cents, hbars int64 }

// firstRate is used until there is another: what the network began with.
var firstRate = rate{cents: 12, hbars: 1}

// FileCost is what it is expected to cost to put call data of some length, in hexadecimal
// digits, into a file in pieces of chunk digits. It asks for the exchange rate, and takes an old one if none can be had.
func (b *Budget) FileCost(ctx context.Context, digits, chunk int) hedera.Tinybar {
	known := b.rate.Load()
	if known == nil {
		known = &firstRate
	}
	if b.askRate != nil {
		if cents, hbars, err := b.askRate(ctx); err == nil && cents > 0 && hbars > 0 {
			known = &rate{cents, hbars}
			b.rate.Store(known)
		}
	}
	return fileCost(digits, chunk, known.cents, known.hbars)
}
