package watch

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/ledger"
	"lockstep/watch/decode"
)

// Event is what sinks and readers of the stream get, as one line of JSON.
type Event struct {
	ID          string          `json:"id"` // {watch}:{chain}:{block hash}:{log index}
	Chain       uint64          `json:"chain"`
	Watch       string          `json:"watch"`
	Event       string          `json:"event"`
	Signature   string          `json:"signature"` // of the event, like Released(address,uint256)
	Topic0      string          `json:"topic0"`    // its hash; of a function its selector; empty for an anonymous event
	Address     string          `json:"address"`
	BlockNumber uint64          `json:"blockNumber"`
	BlockHash   string          `json:"blockHash"`
	Transaction string          `json:"transactionHash"`
	LogIndex    uint64          `json:"logIndex"`  // of a transaction 2^32 and its index: behind all logs of its block
	Timestamp   uint64          `json:"timestamp"` // of the block, in seconds since 1970
	Args        json.RawMessage `json:"args"`
	// Removed says that the block was replaced: the event has not happened.
	Removed bool `json:"removed"`
	// EventID is the name that older consumers know: {transaction hash}:{log index}.
	EventID string `json:"event_id"`
	// Delivery is the id of this message. An event that was removed and has come back is another message.
	Delivery string `json:"deliveryId"`
	// Seq counts the messages of one watch about one contract: 1, 2, 3 …
	Seq int64 `json:"seq"`
	// Backfill names the backfill that has handed this on, if it was one.
	Backfill *Mark `json:"backfill,omitempty"`
	Extra
}

// Extra is what the messages of few events have.
type Extra struct {
	// Undecoded says that the log has the event's first topic and cannot be read by its signature: there are no arguments.
	Undecoded bool `json:"undecoded,omitempty"`
	// Topics and Data are those of the log, where it is undecoded or the watch asks for them.
	Topics []string `json:"topics,omitempty"`
	Data   string   `json:"data,omitempty"`
	// Hex has the bytes of texts that are not UTF-8, by their paths in the arguments, like "orders[2].note".
	Hex map[string]string `json:"hex,omitempty"`
	// Call says what the event's transaction is, where it is the event itself and not a log.
	Call *Called `json:"transaction,omitempty"`
}

// occurrence is an event as the ledger has it.
type occurrence struct {
	contract    *contract
	event       string
	signature   string
	args        string // JSON
	extra       string // JSON, or empty
	undecoded   bool
	blockNumber uint64
	blockHash   string
	txHash      string
	logIndex    uint64
	time        uint64
	incarnation int64
	child       *newContract   // that it announces, nil for none
	mark        *Mark          // of the backfill that hands it on, nil for none
	seq         int64          // of the last message about it that this process has made; 0: none
	values      map[string]any // the arguments, if it was read from a log or a transaction just now
}

func (o *occurrence) id(chain uint64) string {
	return fmt.Sprintf("%s:%d:%s:%d", o.contract.watch.Name, chain, o.blockHash, o.logIndex)
}

// rawOf is what a message has of a log itself.
func rawOf(topics []common.Hash, data []byte) Extra {
	e := Extra{Data: hexutil.Encode(data)}
	for _, t := range topics {
		e.Topics = append(e.Topics, t.Hex())
	}
	return e
}

// message makes the row of the outbox that tells of an event, or of its removal.
func (o *occurrence) message(chain uint64, seq int64, removed bool, now int64) ledger.Event {
	e := Event{
		ID: o.id(chain), Chain: chain, Watch: o.contract.watch.Name, Event: o.event, Signature: o.signature, Topic0: topicOf(o.signature), Address: o.contract.text,
		BlockNumber: o.blockNumber, BlockHash: o.blockHash, Transaction: o.txHash, LogIndex: o.logIndex, Timestamp: o.time,
		Args: json.RawMessage(o.args), Removed: removed, EventID: fmt.Sprintf("%s:%d", o.txHash, o.logIndex), Seq: seq, Backfill: o.mark,
	}
	if o.extra != "" {
		if err := json.Unmarshal([]byte(o.extra), &e.Extra); err != nil {
			panic(fmt.Sprintf("what this package has written is no JSON: %v", err))
		}
	}
	o.seq = seq
	e.Delivery = fmt.Sprintf("%s:%d", e.ID, o.incarnation)
	if removed {
		e.Delivery += ":removed"
	}
	return ledger.Event{Topic: topic, Subject: o.contract.unit, Kind: o.contract.watch.Name, Body: encode(e), At: now}
}

func topicOf(signature string) string {
	if signature == nativeEvent || strings.HasSuffix(signature, decode.AnonymousMark) {
		return ""
	}
	function, called := strings.CutPrefix(signature, functionMark)
	topic := crypto.Keccak256Hash([]byte(function)).Hex()
	if called {
		topic = topic[:len("0x")+8]
	}
	return topic
}

// encode writes JSON of values that always have some.
func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("a value without JSON: %v", err))
	}
	return string(text)
}
