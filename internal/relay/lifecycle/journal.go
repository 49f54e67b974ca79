package lifecycle

import (
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
)

// journalLength is how many steps a Journal keeps: a minute of 25 transactions a second, in a megabyte.
const journalLength = 1 << 13

// Journal has the newest steps of all transactions in the order in which they came, for whoever watches the lanes. It keeps a fixed
// number of them, and the oldest make room. The zero value is ready for use; it is safe for concurrent use.
type Journal struct {
	mu   sync.Mutex
	ring []moment // guarded by mu; journalLength of them, once there was one
	next uint64   // guarded by mu; the number of the next one
}

// moment is a step as the ring has it.
type moment struct {
	hash common.Hash
	step Step
}

// Entry is one step of a Journal.
type Entry struct {
	Number  uint64         `json:"number"` // counts up by one; 0 is the first of this process
	At      int64          `json:"at"`     // milliseconds since the Unix epoch
	Sender  common.Address `json:"sender"`
	Nonce   uint64         `json:"nonce"`
	Hash    common.Hash    `json:"hash"`
	Step    string         `json:"step"`
	Attempt int            `json:"attempt,omitempty"`
	Node    string         `json:"node,omitempty"`
	Status  string         `json:"status,omitempty"` // the network's response code
	Error   string         `json:"error,omitempty"`  // what the client was told; its first longestError bytes
}

// longestError is how much of an error an Entry has.
const longestError = 200

func (j *Journal) add(hash common.Hash, step Step) {
	if len(step.Error) > longestError {
		step.Error = step.Error[:longestError]
	}
	if step.At.IsZero() {
		step.At = time.Now()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ring == nil {
		j.ring = make([]moment, journalLength)
	}
	j.ring[j.next%journalLength] = moment{hash, step}
	j.next++
}

// From returns the steps from a number on, or from the oldest one that is kept, and the number to go on with. It returns at most
// so many of them. Whoever names a number that is yet to come heard it of an earlier process, and gets all.
func (j *Journal) From(number uint64, most int) (list []Entry, next uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if number > j.next {
		number = 0
	}
	if j.next > journalLength {
		number = max(number, j.next-journalLength)
	}
	end := min(j.next, number+uint64(max(most, 0)))
	list = make([]Entry, 0, end-number)
	for ; number < end; number++ {
		m := j.ring[number%journalLength]
		e := Entry{
			Number: number, At: m.step.At.UnixMilli(), Sender: m.step.Sender, Nonce: m.step.Nonce, Hash: m.hash,
			Step: m.step.Name, Attempt: m.step.Attempt, Status: m.step.Status, Error: m.step.Error,
		}
		if !m.step.Node.IsZero() {
			e.Node = m.step.Node.String()
		}
		list = append(list, e)
	}
	return list, end
}
