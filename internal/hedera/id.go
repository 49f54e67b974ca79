package hedera

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common"
)

// ID names an entity: an account, contract, file or node account. All entity
// kinds share one number space. The zero value is 0.0.0, which names nothing.
type ID struct {
	Shard, Realm, Num int64
}

// Entity returns 0.0.num.
func Entity(num int64) ID { return ID{Num: num} }

// ParseID reads the text form shard.realm.num, for example "0.0.1002".
func ParseID(text string) (ID, error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return ID{}, fmt.Errorf("entity id %q: want shard.realm.num", text)
	}
	var n [3]int64
	for i, part := range parts {
		v, err := strconv.ParseUint(part, 10, 63)
		if err != nil {
			return ID{}, fmt.Errorf("entity id %q: want shard.realm.num", text)
		}
		n[i] = int64(v)
	}
	return ID{Shard: n[0], Realm: n[1], Num: n[2]}, nil
}

// String returns the text form shard.realm.num.
func (id ID) String() string {
	return strconv.FormatInt(id.Shard, 10) + "." + strconv.FormatInt(id.Realm, 10) + "." + strconv.FormatInt(id.Num, 10)
}

// IsZero tells whether the id names nothing.
func (id ID) IsZero() bool { return id == ID{} }

// LongZero returns the address that every entity has: 4 bytes of shard, 8 of
// realm and 8 of number, all big-endian.
func (id ID) LongZero() common.Address {
	var a common.Address
	binary.BigEndian.PutUint32(a[0:4], uint32(id.Shard))
	binary.BigEndian.PutUint64(a[4:12], uint64(id.Realm))
	binary.BigEndian.PutUint64(a[12:20], uint64(id.Num))
	return a
}

// FromLongZero returns the entity number in a long-zero address of shard and
// realm 0, and false for any other address.
func FromLongZero(a common.Address) (ID, bool) {
	for _, b := range a[:12] {
		if b != 0 {
			return ID{}, false
		}
	}
	num := binary.BigEndian.Uint64(a[12:])
	if num > 1<<63-1 {
		return ID{}, false
	}
	return ID{Num: int64(num)}, true
}
