package decode

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"reflect"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

// ErrMismatch means that a log is not an event of the signature although its first topic is.
var ErrMismatch = errors.New("the log does not fit the event's signature")

// Decode reads a log's arguments by name. Topics include the selector. The values are those of the package
// comment: string, bool, JSON-safe integer, list, or map.
func (s *Signature) Decode(topics []common.Hash, data []byte) (map[string]any, error) {
	if len(topics) == 0 || topics[0] != s.Selector {
		return nil, fmt.Errorf("%w: its first topic is another event's", ErrMismatch)
	}
	indexed := topics[1:]
	if len(indexed) > len(s.args) || len(indexed) > maxIndexed {
		return nil, fmt.Errorf("%w: %d topics for %d arguments", ErrMismatch, len(indexed), len(s.args))
	}
	if len(indexed) == s.marked {
		if args, err := s.decodeMarked(s.marks(), indexed, data); err == nil {
			return args, nil
		}
	}
	var found map[string]any
	choose(len(s.args), len(indexed), func(marks []bool) bool {
		args, err := s.decodeMarked(marks, indexed, data)
		if err == nil {
			found = args
		}
		return err != nil
	})
	if found == nil {
		return nil, fmt.Errorf("%w: %d indexed arguments and %d bytes of data", ErrMismatch, len(indexed), len(data))
	}
	return found, nil
}

func (s *Signature) marks() []bool {
	marks := make([]bool, len(s.args))
	for i, a := range s.args {
		marks[i] = a.Indexed
	}
	return marks
}

// choose calls yield with each choice of k of n, those that come first before others, until it
// returns false. n is small: an event of more than 17 arguments does not compile.
func choose(n, k int, yield func([]bool) bool) {
	marks := make([]bool, n)
	var place func(from, left int) bool
	place = func(from, left int) bool {
		if left == 0 {
			return yield(marks)
		}
		for i := from; i <= n-left; i++ {
			marks[i] = true
			again := place(i+1, left-1)
			marks[i] = false
			if !again {
				return false
			}
		}
		return true
	}
	place(0, k)
}

// decodeMarked reads a log of which it is known what is indexed. It is strict: data must be exactly what
// encoding the arguments again gives, so that a wrong choice is noticed.
func (s *Signature) decodeMarked(marks []bool, topics []common.Hash, data []byte) (map[string]any, error) {
	var inData abi.Arguments
	for i, a := range s.args {
		if !marks[i] {
			a.Indexed = false
			inData = append(inData, a)
		}
	}
	values, err := unpack(inData, data)
	if err != nil {
		return nil, err
	}
	args := make(map[string]any, len(s.args))
	for i, a := range s.args {
		if marks[i] {
			args[a.Name], err = topicValue(a.Type, topics[0])
			topics = topics[1:]
		} else {
			args[a.Name], err = plain(a.Type, reflect.ValueOf(values[0]))
			values = values[1:]
		}
		if err != nil {
			return nil, fmt.Errorf("argument %s: %w", a.Name, err)
		}
	}
	return args, nil
}

func unpack(args abi.Arguments, data []byte) ([]any, error) {
	if len(args) == 0 {
		if len(data) != 0 {
			return nil, ErrMismatch
		}
		return nil, nil
	}
	values, err := args.UnpackValues(data)
	if err != nil {
		return nil, err
	}
	again, err := args.PackValues(values)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, data) {
		return nil, ErrMismatch
	}
	return values, nil
}

// topicValue reads an indexed argument. Of dynamic types a log has only the hash.
func topicValue(t abi.Type, topic common.Hash) (any, error) {
	switch t.T {
	case abi.StringTy, abi.BytesTy, abi.SliceTy, abi.ArrayTy, abi.TupleTy:
		return topic.Hex(), nil
	default:
		values, err := unpack(abi.Arguments{{Type: t}}, topic[:])
		if err != nil {
			return nil, err
		}
		return plain(t, reflect.ValueOf(values[0]))
	}
}

// narrow is the widest integer that is shown as a JSON number, in bits.
const narrow = 48

// plain turns a value of go-ethereum's decoder into what JSON shows.
func plain(t abi.Type, v reflect.Value) (any, error) {
	switch t.T {
	case abi.BoolTy:
		return v.Bool(), nil
	case abi.StringTy:
		return v.String(), nil
	case abi.AddressTy:
		return v.Interface().(common.Address).Hex(), nil
	case abi.IntTy, abi.UintTy:
		return integer(t, v), nil
	case abi.BytesTy:
		return hexutil.Encode(v.Bytes()), nil
	case abi.FixedBytesTy, abi.FunctionTy:
		raw := make([]byte, v.Len())
		reflect.Copy(reflect.ValueOf(raw), v)
		return hexutil.Encode(raw), nil
	case abi.SliceTy, abi.ArrayTy:
		list := make([]any, v.Len())
		for i := range list {
			var err error
			if list[i], err = plain(*t.Elem, v.Index(i)); err != nil {
				return nil, err
			}
		}
		return list, nil
	case abi.TupleTy:
		members := make(map[string]any, len(t.TupleElems))
		for i, elem := range t.TupleElems {
			value, err := plain(*elem, v.Field(i))
			if err != nil {
				return nil, err
			}
			members[t.TupleRawNames[i]] = value
		}
		return members, nil
	default:
		return nil, fmt.Errorf("type %s is not known", t.String())
	}
}

func integer(t abi.Type, v reflect.Value) any {
	var n *big.Int
	switch {
	case v.CanInt():
		n = big.NewInt(v.Int())
	case v.CanUint():
		n = new(big.Int).SetUint64(v.Uint())
	default:
		n = v.Interface().(*big.Int)
	}
	if t.Size <= narrow {
		return n.Int64()
	}
	return n.String()
}
