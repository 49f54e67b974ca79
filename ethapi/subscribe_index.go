package ethapi

import (
	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/eth"
)

// logIndex finds the streams that may want a log without asking each of them. A filter stands under the values of
// its most selective part: if many streams watch a token's transfers, each to another account, a transfer finds
// only one of them.
type logIndex map[bucket]map[*stream]struct{}

// bucket is a part of a log with a value.
type bucket struct {
	part  uint8 // 0 to 3: the topic there
	value common.Hash
}

const (
	partAddress = maxTopics + iota
	partNone    // filters that want every log
)

func addressBucket(a common.Address) bucket {
	return bucket{part: partAddress, value: common.BytesToHash(a[:])}
}

// buckets returns the places of a filter. Later topics usually are the parties of an event; the first one is its
// kind.
func (f *logFilter) buckets() (all []bucket) {
	for _, part := range [...]uint8{3, 2, 1} {
		if len(f.topics.at[part]) > 0 {
			return topicBuckets(part, f.topics.at[part])
		}
	}
	switch {
	case len(f.addresses) > 0:
		for _, address := range f.addresses {
			all = append(all, addressBucket(address))
		}
		return all
	case len(f.topics.at[0]) > 0:
		return topicBuckets(0, f.topics.at[0])
	}
	return []bucket{{part: partNone}}
}

func topicBuckets(part uint8, topics []common.Hash) []bucket {
	all := make([]bucket, len(topics))
	for i, topic := range topics {
		all[i] = bucket{part, topic}
	}
	return all
}

func (x logIndex) add(s *stream) {
	for _, b := range s.logs.buckets() {
		if x[b] == nil {
			x[b] = make(map[*stream]struct{}, 1)
		}
		x[b][s] = struct{}{}
	}
}

func (x logIndex) remove(s *stream) {
	for _, b := range s.logs.buckets() {
		if delete(x[b], s); len(x[b]) == 0 {
			delete(x, b)
		}
	}
}

// find calls yield once for each stream that wants the log.
func (x logIndex) find(l *eth.Log, yield func(*stream)) {
	try := func(b bucket) {
		for s := range x[b] {
			if s.logs.matches(l) {
				yield(s)
			}
		}
	}
	try(bucket{part: partNone})
	try(addressBucket(l.Address))
	for i, topic := range l.Topics[:min(len(l.Topics), maxTopics)] {
		try(bucket{uint8(i), topic})
	}
}
