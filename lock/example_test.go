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
	first.Observe(0)                   // what the mirror node shows
	second, _ := locks.Enter(sender, 1)
	defer second.Leave()

	lease, _ := first.Wait(context.Background())
	mirror := lock.Known{Shown: 0, Looked: true, Fresh: true}
	next := lease.Next(mirror)
	if next.Step == lock.Go && lease.Check() == nil { // the check is last, before the bytes leave
		lease.Report(lock.Report{Outcome: lock.Accepted, Submission: lock.Submission{Node: "0.0.3"}})
	}
	lease.Release()

	lease, _ = second.Wait(context.Background())
	next = lease.Next(mirror)
	fmt.Println(next.Nonce, next.Certainty == lock.Chained)
	// Output: 1 true
}
