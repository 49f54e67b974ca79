package ledger

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/core/vm/program"
	"google.golang.org/protobuf/proto"

	"lockstep/devnet/ledger/codec"
	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/devaccounts"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// lived is a ledger in which something of every kind happened that needs no mirror node.
func lived(t *testing.T) *rig { return livedFrom(t, newRig(t, Config{})) }

func livedFrom(t *testing.T, r *rig) *rig {
	t.Helper()
	from, to := dev(t, 0), dev(t, 1)
	contract := r.deploy(from, 0, program.New().Sstore(1, 7).Sstore(2, 8).Bytes())
	r.want(r.ethereum(from, dynamic(1, &contract, 0, 100_000, nil)), okay)
	r.want(r.ethereum(from, dynamic(2, &to.address, 5, 100_000, nil)), okay)
	hollow := fresh(t, 9).address
	r.want(r.ethereum(from, dynamic(3, &hollow, hedera.Hbar, 800_000, nil)), okay)
	r.want(r.submit(from.id, core.BodyOf(&hapi.FileCreateTransactionBody{Contents: []byte("text"), Memo: "memo"}), from.key), okay)
	r.want(r.submit(from.id, core.BodyOf(&hapi.ConsensusCreateTopicTransactionBody{AutoRenewPeriod: &hapi.Duration{Seconds: core.GenesisRenewal}}), from.key), okay)
	r.IncreaseTime(time.Hour)
	return r
}

func saved(t *testing.T, l *Ledger) []byte {
	t.Helper()
	var buf bytes.Buffer
	if _, err := l.Save(&buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

const anySize = 1 << 30

// TestSavedStateIsWhole: what is loaded is saved as the same bytes, and life goes on alike,
// backwards as well.
func TestSavedStateIsWhole(t *testing.T) {
	r := lived(t)
	before := r.Snapshot()
	state := saved(t, r.Ledger)
	again := newRig(t, Config{})
	again.start = r.start
	must.Do(t, again.Load(bytes.NewReader(state), anySize))
	if got := saved(t, again.Ledger); !bytes.Equal(got, state) {
		t.Errorf("%d bytes became %d others", len(state), len(got))
	}
	if ahead := again.IncreaseTime(0); ahead.Round(time.Minute) != time.Hour {
		t.Errorf("the clock is %s ahead", ahead)
	}
	after := again.Snapshot()
	from, to := dev(t, 0), dev(t, 1)
	for _, one := range []*rig{r, again} {
		one.want(one.ethereum(from, dynamic(4, &to.address, 5, 100_000, nil)), okay)
		created := one.submit(from.id, core.BodyOf(&hapi.FileCreateTransactionBody{}), from.key)
		if num := created.File.Num; num != r.store.NextNum-1 {
			t.Errorf("the next number is %d", num)
		}
	}
	for l, s := range map[*rig]*Snapshot{r: before, again: after} {
		if !l.Revert(s) {
			t.Fatal("the ledger does not go back")
		}
	}
	if got, want := again.Ledger.View().LatestBlock(), r.View().LatestBlock(); got.Hash != want.Hash {
		t.Errorf("the newest block is %+v, not %+v", got, want)
	}
	if b := again.balance(to.address); b != r.balance(to.address) {
		t.Errorf("balance %d", b)
	}
}

// TestDeterministic: of the same inputs come the same numbers, times, records and blocks; an
// Ethereum transaction may come in another one of its relay.
func TestDeterministic(t *testing.T) {
	first, second, third := newRig(t, Config{Deterministic: true}), newRig(t, Config{Deterministic: true}), newRig(t, Config{Deterministic: true})
	one, two := saved(t, livedFrom(t, first).Ledger), saved(t, livedFrom(t, second).Ledger)
	if !bytes.Equal(one, two) {
		t.Error("the same inputs made another state")
	}
	from, to := dev(t, 0), dev(t, 1)
	third.start = 1_000
	for _, r := range []*rig{first, third} {
		if r == first {
			must.Do(t, r.Reset())
		}
		r.deploy(from, 0, returnTop(program.New().Push(1)))
		r.want(r.ethereum(from, dynamic(1, &to.address, 5, 100_000, nil)), okay)
		r.Mine(2, 0)
	}
	a, b := first.View().LatestBlock(), third.View().LatestBlock()
	if a.Hash != b.Hash || a.From != b.From || a.Number != 4 {
		t.Errorf("blocks %+v and %+v", a, b)
	}
	if _, err := New(Config{Deterministic: true, BlockTime: time.Second}); err == nil {
		t.Error("blocks by time are deterministic")
	}
}

// TestLoadedHistoryIsForgotten: the bounds on history hold for what was loaded, too.
func TestLoadedHistoryIsForgotten(t *testing.T) {
	r := lived(t)
	again := newRig(t, Config{History: 3})
	must.Do(t, again.Load(bytes.NewReader(saved(t, r.Ledger)), anySize))
	from, to := dev(t, 0), dev(t, 1)
	for n := range uint64(6) {
		again.want(again.ethereum(from, dynamic(4+n, &to.address, 5, 100_000, nil)), okay)
	}
	if n := len(again.View().Blocks()); n != 3 {
		t.Errorf("%d blocks are kept", n)
	}
	if n := len(again.store.World.Entities.Versions(from.id.Num)); n > 4 {
		t.Errorf("%d versions of the sender are kept", n)
	}
}

// TestSavedWhileABlockIsOpen: what is in an open block is not saved with the closed ones.
func TestSavedWhileABlockIsOpen(t *testing.T) {
	r := newRig(t, Config{})
	r.SetAutomine(false)
	from, to := dev(t, 0), dev(t, 1)
	r.want(r.ethereum(from, dynamic(0, &to.address, 5, 100_000, nil)), okay)
	saving := make(chan []byte, 1)
	go func() {
		var buf bytes.Buffer
		if _, err := r.SaveClosed(t.Context(), &buf); err != nil {
			t.Error(err)
		}
		saving <- buf.Bytes()
	}()
	for waiting := 0; waiting == 0; {
		r.handling.Lock()
		waiting = len(r.atClose)
		r.handling.Unlock()
	}
	r.Mine(1, 0)
	r.want(r.ethereum(from, dynamic(1, &to.address, 5, 100_000, nil)), okay)
	again := newRig(t, Config{})
	must.Do(t, again.Load(bytes.NewReader(<-saving), anySize))
	if a, _ := again.Handled().Account(from.id); a.Nonce != 1 {
		t.Errorf("nonce %d", a.Nonce)
	}
}

// TestBadState: what is damaged or another network's is told, and changes nothing.
func TestBadState(t *testing.T) {
	state := saved(t, lived(t).Ledger)
	change := func(at int) []byte {
		bad := bytes.Clone(state)
		bad[at] ^= 1
		return bad
	}
	otherChain := newRig(t, Config{ChainID: 31337})
	fewer := newRig(t, Config{Accounts: devaccounts.All()[:1]})
	for name, tt := range map[string]struct {
		state []byte
		want  error
	}{
		"nothing":            {nil, ErrNotState},
		"some text":          {[]byte(`{"accounts":{}}`), ErrNotState},
		"another version":    {change(len(stateMagic)), ErrOtherVersion},
		"another chain":      {saved(t, otherChain.Ledger), ErrOtherNetwork},
		"no such accounts":   {saved(t, fewer.Ledger), ErrOtherNetwork},
		"a part of it":       {state[:len(state)/2], nil},
		"all but the end":    {state[:len(state)-1], nil},
		"more at its end":    {append(bytes.Clone(state), 0), nil},
		"only its beginning": {state[:len(stateMagic)+32], nil},
	} {
		r := newRig(t, Config{})
		before := saved(t, r.Ledger)
		err := r.Load(bytes.NewReader(tt.state), anySize)
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		if !bytes.Equal(saved(t, r.Ledger), before) {
			t.Errorf("%s: the ledger has changed", name)
		}
	}
	r := newRig(t, Config{})
	for at := len(stateMagic) + 32; at < len(state); at += 1 + len(state)/60 {
		// A few bits of a compressed stream mean nothing.
		if err := r.Load(bytes.NewReader(change(at)), anySize); err == nil && !bytes.Equal(saved(t, r.Ledger), state) {
			t.Errorf("a changed byte %d of %d is not noticed", at, len(state))
		}
	}
	if err := r.Load(bytes.NewReader(state), 1000); err == nil {
		t.Error("what is too large is loaded")
	}
	if _, err := r.Dump(1000); err == nil {
		t.Error("what is too large is dumped")
	}
}

// TestEveryFieldIsSaved: a type of state with an unexported field would lose it. The few that
// there are have other ways.
func TestEveryFieldIsSaved(t *testing.T) {
	var left []string
	known := map[reflect.Type]bool{}
	var look func(reflect.Type)
	look = func(at reflect.Type) {
		if known[at] || at.Implements(reflect.TypeFor[proto.Message]()) {
			return
		}
		known[at] = true
		switch at.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array:
			look(at.Elem())
		case reflect.Struct:
			for i := range at.NumField() {
				f := at.Field(i)
				if !f.IsExported() || f.Tag.Get("json") == "-" {
					left = append(left, at.Name()+"."+f.Name)
				} else {
					look(f.Type)
				}
			}
		case reflect.Interface, reflect.Map, reflect.Func, reflect.Chan:
			t.Errorf("%s has no saved form", at)
		}
	}
	for _, at := range stateTypes() {
		look(at)
	}
	slices.Sort(left)
	want := []string{
		"Block.Records", "Block.logs", "Block.results", "Block.weight", // counted again
		"Entity.upstream", // forks are not saved
		"Record.Children", // known by their Parent
	}
	if !slices.Equal(left, want) {
		t.Errorf("not saved: %q, want %q", left, want)
	}
	if all, fields := len(new(state.Tables).All()), reflect.TypeFor[state.Tables]().NumField(); all != fields {
		t.Errorf("%d of %d tables are saved", all, fields)
	}
}

// FuzzLoad: whatever is loaded, the ledger lives.
func FuzzLoad(f *testing.F) {
	e := new(codec.Encoder)
	add := func(v any) {
		var buf bytes.Buffer
		e.Put(v)
		must.Do(f, e.Flush(&buf))
		f.Add(buf.Bytes())
	}
	add(header{})
	e.Put(header{})
	e.Put(1)
	add(state.SavedRow[int64, state.Entity]{At: []int64{1}, Rows: []*state.Entity{{Description: &state.Description{}}}})
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := &loading{Decoder: codec.NewDecoder(bytes.NewReader(raw)), world: state.NewWorld(nil), chain: history.NewChain(10, 1<<20)}
		s.Get(&s.header)
		s.tables()
		s.blocks()
	})
}
