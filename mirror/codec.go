package mirror

import (
	"encoding/binary"
	"hash/crc32"
	"math/big"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/internal/hedera"
)

// A coder writes a record's fields one after the other, or reads them. One description of a record serves both
// ways, so that they cannot disagree. After the first mistake in the input it reads nothing more.
//
//	record = version (1 byte) fields checksum (4 bytes, CRC-32C of all before it)
//
// Numbers are varints. What can be absent is preceded by 0 for absent or 1; bytes and
// lists by 0 for absent or their length and one.
type coder struct {
	b       []byte
	reading bool
	bad     bool
}

// recordVersion changes with every change of the format. Records of another version are not read.
const recordVersion = 1

const checksumBytes = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func encodeRecord[T any](value *T, fields func(*coder, *T)) []byte {
	c := coder{b: []byte{recordVersion}}
	fields(&c, value)
	return withChecksum(c.b)
}

func withChecksum(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeRecord returns nil for anything but a whole record of this version.
func decodeRecord[T any](raw []byte, fields func(*coder, *T)) *T {
	end := len(raw) - checksumBytes
	if end < 1 || raw[0] != recordVersion || binary.BigEndian.Uint32(raw[end:]) != crc32.Checksum(raw[:end], castagnoli) {
		return nil
	}
	c := coder{b: raw[1:end], reading: true}
	value := new(T)
	fields(&c, value)
	if c.bad || len(c.b) > 0 {
		return nil
	}
	return value
}

// take cuts n bytes off the input.
func (c *coder) take(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.bad, c.b = true, nil
		return nil
	}
	taken := c.b[:n:n]
	c.b = c.b[n:]
	return taken
}

func (c *coder) uint64(v *uint64) {
	if !c.reading {
		c.b = binary.AppendUvarint(c.b, *v)
		return
	}
	n, size := binary.Uvarint(c.b)
	if size <= 0 {
		c.bad, c.b = true, nil
		return
	}
	*v, c.b = n, c.b[size:]
}

func (c *coder) int64(v *int64) {
	n := uint64(*v<<1) ^ uint64(*v>>63)
	c.uint64(&n)
	*v = int64(n>>1) ^ -int64(n&1)
}

func (c *coder) fixed(v []byte) {
	if !c.reading {
		c.b = append(c.b, v...)
		return
	}
	copy(v, c.take(uint64(len(v))))
}

// present writes or reads whether something is there.
func (c *coder) present(is bool) bool {
	var n uint64
	if is {
		n = 1
	}
	c.uint64(&n)
	return n == 1
}

// length writes or reads a length that may be absent, which is -1.
func (c *coder) length(n int) int {
	plus := uint64(n + 1)
	c.uint64(&plus)
	if plus > uint64(len(c.b))+1 && c.reading { // everything takes a byte at least
		c.bad, c.b = true, nil
		return -1
	}
	return int(plus) - 1
}

func (c *coder) bytes(v *[]byte) {
	n := -1
	if *v != nil {
		n = len(*v)
	}
	if n = c.length(n); !c.reading {
		c.b = append(c.b, *v...)
		return
	}
	if n >= 0 {
		*v = append(make([]byte, 0, n), c.take(uint64(n))...)
	}
}

func (c *coder) text(v *string) {
	raw := []byte(*v)
	c.bytes(&raw)
	if c.reading {
		*v = string(raw)
	}
}

func (c *coder) optional(v **uint64) {
	if !c.present(*v != nil) {
		return
	}
	if *v == nil {
		*v = new(uint64)
	}
	c.uint64(*v)
}

func (c *coder) big(v **big.Int) {
	var raw []byte
	negative := *v != nil && (*v).Sign() < 0
	if *v != nil {
		raw = (*v).Bytes()
	}
	if c.bytes(&raw); raw == nil {
		return
	}
	negative = c.present(negative)
	if c.reading {
		if *v = new(big.Int).SetBytes(raw); negative {
			(*v).Neg(*v)
		}
	}
}

func (c *coder) maybeAddress(v **common.Address) {
	if !c.present(*v != nil) {
		return
	}
	if *v == nil {
		*v = new(common.Address)
	}
	c.fixed((*v)[:])
}

func (c *coder) time(t *hedera.Timestamp) {
	nanos := int64(t.Nanos)
	c.int64(&t.Seconds)
	c.int64(&nanos)
	t.Nanos = int32(nanos)
}

func (c *coder) id(id *hedera.ID) {
	c.int64(&id.Shard)
	c.int64(&id.Realm)
	c.int64(&id.Num)
}

// items codes a list; item codes one of it.
func items[T any](c *coder, list *[]T, item func(*coder, *T)) {
	n := -1
	if *list != nil {
		n = len(*list)
	}
	n = c.length(n)
	if c.reading && n >= 0 {
		*list = []T{}
	}
	for i := 0; i < n && !c.bad; i++ {
		if c.reading {
			var zero T
			*list = append(*list, zero)
		}
		item(c, &(*list)[i])
	}
}

// pointers is items for a list of pointers, none of them nil.
func pointers[T any](fields func(*coder, *T)) func(*coder, **T) {
	return func(c *coder, p **T) {
		if c.reading {
			*p = new(T)
		}
		fields(c, *p)
	}
}
