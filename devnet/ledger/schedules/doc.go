// Package schedules handles schedules: transactions that wait until their signatures are there, or until their time where they
// wait for that.
//
// Who must sign is found by handling the transaction on an overlay that is
// thrown away, as if everybody had signed, and noting whose keys were asked for. The ledger executes it as
// a transaction of its own, under the id of its creation marked as scheduled.
package schedules
