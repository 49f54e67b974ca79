package lock_test

import (
	"context"
	"fmt"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/lock"
)

func Example() {
	locks, err := lock.New(lock.DefaultConfig(), lock.Deps{})
	if err != nil {
		panic(err)
	}
	sender := common.HexToAddress("0xB0B")
	first, _ := locks.Enter(sender, 0) // the order is fixed here
	second, _ := locks.Enter(sender, 1)
	defer second.Leave()

	lease, _ := first.Wait(context.Background())
	if lease.Check() == nil { // last, before the bytes leave
		lease.Advance(1, lock.Submission{Node: "0.0.3"})
	}
	lease.Release()

	lease, _ = second.Wait(context.Background())
	next, known := lease.Expected()
	fmt.Println(next, known)
	// Output: 1 true
}
