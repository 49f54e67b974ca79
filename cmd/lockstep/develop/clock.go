package develop

import (
	"context"
	"strconv"
	"time"

	"lockstep/devnet/ledger"
	"lockstep/internal/eth"
	"lockstep/rpc"
)

// maxMined bounds how many blocks one call makes.
const maxMined = 100_000

// maxSeconds bounds by how much one call moves the clock: about 136 years.
const maxSeconds = 1 << 32

func (d *Developer) clockMethods() []rpc.Method {
	return concat(
		named(d.mineOne, "evm_mine"),
		named(d.mine(d.ledger.Mine, true), "hardhat_mine"), named(d.mine(d.ledger.MineApart, nil), "anvil_mine"),
		named(d.increaseTime, "evm_increaseTime", "anvil_increaseTime", "hardhat_increaseTime"),
		named(d.setTime, "evm_setTime", "anvil_setTime", "hardhat_setTime"),
		named(d.setNextTime, "evm_setNextBlockTimestamp", "anvil_setNextBlockTimestamp", "hardhat_setNextBlockTimestamp"),
		named(d.setAutomine, "evm_setAutomine", "anvil_setAutomine", "hardhat_setAutomine"),
		named(d.getAutomine, "evm_getAutomine", "anvil_getAutomine", "hardhat_getAutomine"),
		named(d.setInterval(time.Millisecond), "evm_setIntervalMining", "hardhat_setIntervalMining"),
		named(d.setInterval(time.Second), "anvil_setIntervalMining"),
	)
}

// mineOne is evm_mine, with a time for the block or without: a number, or as timestamp in an
// object.
func (d *Developer) mineOne(ctx context.Context, p *rpc.Params) (any, error) {
	at, given := p.At(0), p.Given(0)
	blocks := uint64(1)
	if at.IsObject() {
		if n, ok := at.Field("blocks").Uint64(); ok {
			blocks = n
		}
		at = at.Field("timestamp")
		given = at.Given()
	}
	if blocks > maxMined {
		return nil, eth.ErrInvalidParam(0, "the maximum is %d blocks", maxMined)
	}
	if given {
		seconds, ok := at.Uint64()
		if !ok {
			return nil, eth.ErrInvalidParam(0, "want a time in seconds")
		}
		if err := d.next(seconds); err != nil {
			return nil, err
		}
	}
	d.ledger.Mine(int(blocks), 0)
	d.changed(ctx)
	return "0x0", nil
}

// mine is hardhat_mine, so many blocks, so many seconds apart, and anvil_mine, whose first block keeps that
// distance, too.
func (d *Developer) mine(mine func(blocks int, seconds int64), result any) rpc.Handler {
	return func(ctx context.Context, p *rpc.Params) (any, error) {
		blocks, err := countOr(p, 0, 1)
		if err != nil {
			return nil, err
		}
		apart, err := countOr(p, 1, 0)
		if err != nil {
			return nil, err
		}
		if blocks > maxMined || apart > maxSeconds/max(blocks, 1) {
			return nil, eth.ErrInvalidParam(0, "the maximum is %d blocks, and %d seconds between the first and the last", maxMined, maxSeconds)
		}
		if err := d.reaches(blocks * apart); err != nil {
			return nil, err
		}
		mine(int(blocks), int64(apart))
		d.changed(ctx)
		return result, nil
	}
}

// increaseTime is evm_increaseTime; it answers how many seconds the clock is ahead now.
func (d *Developer) increaseTime(ctx context.Context, p *rpc.Params) (any, error) {
	seconds, err := secondsOf(p)
	if err != nil {
		return nil, err
	}
	if err := d.reaches(seconds); err != nil {
		return nil, err
	}
	ahead := d.ledger.IncreaseTime(time.Duration(seconds) * time.Second)
	d.changed(ctx)
	return int64(ahead / time.Second), nil
}

// secondsOf reads the only parameter of a method that takes a time span.
func secondsOf(p *rpc.Params) (uint64, error) {
	seconds, err := count(p, 0)
	if err == nil && seconds > maxSeconds {
		err = eth.ErrInvalidParam(0, "the maximum is %d seconds", maxSeconds)
	}
	return seconds, err
}

// reaches tells whether the clock goes so many seconds further.
func (d *Developer) reaches(seconds uint64) error {
	if d.ledger.Now().Unix()+int64(seconds) > ledger.LastSecond {
		return eth.ErrInvalidArguments("%d seconds more: %s", seconds, ledger.ErrTimeFar)
	}
	return nil
}

// setTime is evm_setTime: the clock shows a time from now on. It answers as increaseTime does.
func (d *Developer) setTime(ctx context.Context, p *rpc.Params) (any, error) {
	seconds, err := count(p, 0)
	if err != nil {
		return nil, err
	}
	const milliseconds = 1 << 34 // what is larger counts them, as JavaScript does
	if seconds >= milliseconds {
		seconds /= 1000
	}
	if seconds > ledger.LastSecond {
		return nil, eth.ErrInvalidArguments("timestamp %d: %s", seconds, ledger.ErrTimeFar)
	}
	ahead := d.ledger.SetTime(time.Unix(int64(seconds), 0))
	d.changed(ctx)
	return int64(ahead / time.Second), nil
}

// setNextTime is evm_setNextBlockTimestamp.
func (d *Developer) setNextTime(_ context.Context, p *rpc.Params) (any, error) {
	seconds, err := count(p, 0)
	if err != nil {
		return nil, err
	}
	if err := d.next(seconds); err != nil {
		return nil, err
	}
	return strconv.FormatUint(seconds, 10), nil
}

func (d *Developer) next(seconds uint64) error {
	if err := d.ledger.SetNextTime(int64(min(seconds, 1<<62))); err != nil {
		return eth.ErrInvalidArguments("timestamp %d: %s", seconds, err)
	}
	return nil
}

func (d *Developer) setAutomine(_ context.Context, p *rpc.Params) (any, error) {
	if !p.At(0).IsBool() {
		return nil, eth.ErrInvalidParam(0, "want true or false")
	}
	d.ledger.SetAutomine(p.At(0).Bool())
	return true, nil
}

func (d *Developer) getAutomine(context.Context, *rpc.Params) (any, error) {
	return d.ledger.Automine(), nil
}

// setInterval is evm_setIntervalMining, whose unit is Hardhat's, and anvil_setIntervalMining,
// whose is Anvil's.
func (d *Developer) setInterval(unit time.Duration) rpc.Handler {
	return func(_ context.Context, p *rpc.Params) (any, error) {
		n, err := count(p, 0)
		if err != nil {
			return nil, err
		}
		if n > uint64(24*time.Hour/unit) {
			return nil, eth.ErrInvalidParam(0, "the maximum is a day")
		}
		d.ledger.SetInterval(time.Duration(n) * unit)
		return true, nil
	}
}
