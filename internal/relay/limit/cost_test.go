package limit

import (
	"context"
	"errors"
	"testing"

	"lockstep/internal/hedera"
)

func TestEthereumCost(t *testing.T) {
	for _, test := range []struct {
		price, offered hedera.Tinybar
		gas            uint64
		allowance      hedera.Tinybar
		want           hedera.Tinybar
	}{
		{71, 71, 21_000, 0, 85_200},
		{71, 100, 21_000, 10 * hedera.Hbar, 85_200},         // the sender pays for all gas
		{71, 0, 21_000, 10 * hedera.Hbar, 85_200 + 1491000}, // the payer does
		{71, 70, 21_000, 10 * hedera.Hbar, 85_200 + 21_000},
		{71, 0, 15_000_000, hedera.Hbar, 85_200 + hedera.Hbar}, // up to the allowance
		{71, 0, 15_000_000, 0, 85_200},                         // the network refuses it
		{0, 0, 21_000, 0, 120_000},                             // the price is not known
		{1 << 62, 0, 1 << 63, 1 << 62, greatest / 4},
	} {
		if got := EthereumCost(test.price, test.offered, test.gas, test.allowance); got != test.want {
			t.Errorf("EthereumCost(%d, %d, %d, %d) = %d, want %d", test.price, test.offered, test.gas, test.allowance, got, test.want)
		}
	}
}

func TestFileCost(t *testing.T) {
	for _, test := range []struct {
		digits, chunk int
		cents, hbars  int64
		want          hedera.Tinybar
	}{
		// 50.184 + 50.141·1 − 6.201 + 0.011·0 = 94.124 cents, at 12 cents per ℏ
		{10_240, 5_120, 12, 1, 784_366_667},
		{10_240, 5_120, 24, 2, 784_366_667},
		// 50.184 + 50.141·2 − 6.201 + 0.011·640 = 151.305 cents
		{16_000, 5_120, 12, 1, 1_260_875_000},
		{10, 5_120, 12, 1, 0}, // the formula would go below nothing
		{0, 5_120, 12, 1, 0},
		{10, 0, 12, 1, 0},
		{10_240, 5_120, 0, 1, 0},
		{10_240, 5_120, 12, 0, 0},
	} {
		if got := fileCost(test.digits, test.chunk, test.cents, test.hbars); got != test.want {
			t.Errorf("fileCost(%d, %d, %d, %d) = %d, want %d", test.digits, test.chunk, test.cents, test.hbars, got, test.want)
		}
	}
}

// An old exchange rate is better than none.
func TestRates(t *testing.T) {
	b := newBudget(t, testConfig())
	var cents int64
	var failure error
	b.askRate = func(context.Context) (int64, int64, error) { return cents, 1, failure }
	for i, step := range []struct {
		cents   int64
		failure error
		want    int64 // cents
	}{{24, errors.New("down"), 12}, {24, nil, 24}, {0, nil, 24}, {6, nil, 6}, {5, errors.New("down"), 6}} {
		cents, failure = step.cents, step.failure
		if got := b.FileCost(t.Context(), 10_240, 5_120); got != fileCost(10_240, 5_120, step.want, 1) {
			t.Errorf("step %d: a file costs %d", i, got)
		}
	}
}
