package app

import (
	"maps"
	"slices"
	"time"

	"lockstep/console"
)

// A machine that stands still for seconds is no upstream that does not answer.
func init() {
	announceTimeout, readyTimeout, versionTimeout = time.Minute, time.Minute, time.Minute
	balanceTimeout, costTimeout = time.Minute, time.Minute
	checkAgain = 20 * time.Millisecond // a test that wants a second look does not wait for it
}

// Answered lists what the relay answers besides JSON-RPC: the paths of the RPC port, and the requests of the console.
func (a *App) Answered() (paths, ofConsole []string) {
	return slices.Sorted(maps.Keys(a.pages(nil))), console.New(a.consoleDeps()).Requests()
}
