package hedera

import (
	"math/big"
)

// Tinybar is an amount of the network's money: 10⁸ tinybar are one ℏ.
type Tinybar int64

// Hbar is 1 ℏ in tinybar.
const Hbar Tinybar = 100_000_000

// WeibarPerTinybar is how many weibar, the unit Ethereum clients see, one tinybar is.
const WeibarPerTinybar = 10_000_000_000

var weibarPerTinybar = big.NewInt(WeibarPerTinybar)

// Weibar converts to the unit of Ethereum clients. The result is the caller's own.
func (t Tinybar) Weibar() *big.Int {
	return new(big.Int).Mul(big.NewInt(int64(t)), weibarPerTinybar)
}

// TinybarOf converts from weibar and drops what is below one tinybar, as the
// network does with the value of an Ethereum transaction. ok is false when the
// amount is negative or does not fit.
func TinybarOf(weibar *big.Int) (t Tinybar, ok bool) {
	q := new(big.Int).Quo(weibar, weibarPerTinybar)
	if weibar.Sign() < 0 || !q.IsInt64() {
		return 0, false
	}
	return Tinybar(q.Int64()), true
}
