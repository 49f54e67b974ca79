package submit

import "testing"

// TestTransactionsInProgressAreBoundedInBytes, whoever sent them and whether or not that client still waits.
func TestTransactionsInProgressAreBoundedInBytes(t *testing.T) {
	const long = 128 << 10
	group := newTasks(1 << 20)
	taken := 0
	for group.begin(long) == nil {
		taken++
	}
	if taken != bytesInProgress/long {
		t.Errorf("%d transactions of %d bytes are in progress", taken, long)
	}
	group.end(long)
	if err := group.begin(long); err != nil {
		t.Errorf("there is no room for one more after the end of one: %v", err)
	}
}
