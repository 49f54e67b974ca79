package lock

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
)

// This file reads everything that comes from Redis. An older version or another program may have
// written it, so it is checked here.

const maxField = 256 // bytes of any one field that is accepted

// lockValue is the value of a lock key: the owner and the state of the lane.
type lockValue struct {
	session  string
	instance string
	nonce    uint64
	fence    uint64
	chain    chain
}

// parseLockValue reads "session|instance|nonce|fence|expected|base|sure|lastfence|node|txid".
// The empty string is a free lock: a value without a session.
func parseLockValue(s string) (lockValue, error) {
	if s == "" {
		return lockValue{}, nil
	}
	f := strings.Split(s, "|")
	if len(f) != 10 {
		return lockValue{}, fmt.Errorf("lock value has %d fields, want 10", len(f))
	}
	for _, field := range f {
		if len(field) > maxField {
			return lockValue{}, fmt.Errorf("lock value has a field of %d bytes", len(field))
		}
	}
	if f[0] == "" || f[1] == "" {
		return lockValue{}, fmt.Errorf("lock value names no owner")
	}
	r := lockValue{session: f[0], instance: f[1]}
	var err error
	number := func(field string) uint64 {
		if field == "" || err != nil {
			return 0
		}
		var n uint64
		n, err = strconv.ParseUint(field, 10, 64)
		return n
	}
	r.nonce, r.fence = number(f[2]), number(f[3])
	r.chain.expected, r.chain.known, r.chain.base = number(f[4]), f[4] != "", number(f[5])
	r.chain.sure = f[4] != "" && f[6] == "1"
	if f[6] == "r" || f[6] == "R" {
		r.chain.mode = recovering
	}
	if f[4] != "" {
		r.chain.gap = map[string]missing{"a": tried, "g": certain}[f[6]]
	}
	r.chain.lastFence = number(f[7])
	if err != nil {
		return lockValue{}, fmt.Errorf("lock value: %w", err)
	}
	if r.chain.lastFence != 0 {
		r.chain.last = Submission{Node: f[8], TxID: f[9], Open: true}
	}
	return r, nil
}

// fields returns the knowledge as the release script takes it. last is "lastfence|node|txid".
func (k chain) fields() (expected, base, sure, last string) {
	if k.known {
		expected = strconv.FormatUint(k.expected, 10)
		if k.base != 0 {
			base = strconv.FormatUint(k.base, 10)
		}
		sure = map[missing]string{tried: "a", certain: "g"}[k.gap] // versions without gaps take it for "not sure"
		if k.sure {
			sure = "1"
		}
	}
	if k.mode == recovering {
		sure = "r" // versions without modes take it for "not sure"
	}
	// A name that would break the format is dropped with its submission.
	if k.lastFence != 0 && plain(k.last.Node) && plain(k.last.TxID) {
		return expected, base, sure, strconv.FormatUint(k.lastFence, 10) + "|" + k.last.Node + "|" + k.last.TxID
	}
	return expected, base, sure, "||"
}

func plain(s string) bool {
	return len(s) <= maxField && !strings.ContainsAny(s, "|\n\r")
}

// message is what arrives on the channel of this process.
type message struct {
	verb  string // "grant", "lost" or "echo"
	echo  uint64 // echo only: its number
	lane  common.Address
	hold  time.Duration // grant only: the hold limit the owner was given
	owner lockValue
}

// parseMessage reads "verb\nlock key\nhold ms\nrecord" or "echo\nnumber".
func parseMessage(s string) (message, error) {
	verb, rest, _ := strings.Cut(s, "\n")
	switch verb {
	case "echo":
		n, err := strconv.ParseUint(rest, 10, 64)
		if err != nil {
			return message{}, fmt.Errorf("echo: %w", err)
		}
		return message{verb: verb, echo: n}, nil
	case "grant", "lost":
	default:
		return message{}, fmt.Errorf("message of unknown kind")
	}
	f := strings.Split(rest, "\n")
	if len(f) != 3 {
		return message{}, fmt.Errorf("%s message has %d lines, want 3", verb, len(f))
	}
	m := message{verb: verb}
	var err error
	if m.lane, err = parseKey(f[0]); err != nil {
		return message{}, err
	}
	ms, err := strconv.ParseUint(f[1], 10, 31)
	if err != nil {
		return message{}, fmt.Errorf("hold limit: %w", err)
	}
	m.hold = time.Duration(ms) * time.Millisecond
	if m.owner, err = parseLockValue(f[2]); err != nil {
		return message{}, err
	}
	if m.owner.session == "" {
		return message{}, fmt.Errorf("%s message without an owner", verb)
	}
	return m, nil
}

const (
	lockPrefix      = "lock:"
	heartbeatPrefix = "lock:heartbeat:"
	grantsPrefix    = "lock:grants:"
	instancesKey    = "lock:instances"
)

// keys returns the keys of a lane. The braces are a hash tag: in a cluster they keep
// all keys of one sender in one slot.
func keys(sender common.Address) []string {
	tag := "{0x" + hex.EncodeToString(sender[:]) + "}"
	return []string{lockPrefix + tag, "lock:queue:" + tag, "lock:memory:" + tag, "lock:waiting:" + tag}
}

func parseKey(key string) (common.Address, error) {
	inner, ok := strings.CutPrefix(key, lockPrefix+"{")
	if !ok || len(inner) != 2+2*common.AddressLength+1 || !strings.HasSuffix(inner, "}") {
		return common.Address{}, fmt.Errorf("not the lock key of a sender")
	}
	inner = inner[:len(inner)-1]
	if !strings.HasPrefix(inner, "0x") || !common.IsHexAddress(inner) {
		return common.Address{}, fmt.Errorf("not the lock key of a sender")
	}
	return common.HexToAddress(inner), nil
}
