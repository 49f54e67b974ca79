package locksim

import (
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// compiled keeps the scripts of all simulations, by their text.
var compiled sync.Map

func compile(text string) (*lua.FunctionProto, error) {
	if known, ok := compiled.Load(text); ok {
		return known.(*lua.FunctionProto), nil
	}
	chunk, err := parse.Parse(strings.NewReader(throughAnother(text)), "script")
	if err != nil {
		return nil, fmt.Errorf("ERR compiling script: %w", err)
	}
	proto, err := lua.Compile(chunk, "script")
	if err != nil {
		return nil, fmt.Errorf("ERR compiling script: %w", err)
	}
	compiled.Store(text, proto)
	return proto, nil
}

// logical is an assignment of a value made with "and" or "or". The interpreter may leave the variable as it was when a part
// of such a value is false, so the value goes through a new variable. TestFaithful would show whether that is not all.
var logical = regexp.MustCompile(`(?m)^(\s*)(\w+) = (.+ (?:and|or) .+)$`)

func throughAnother(text string) string {
	return logical.ReplaceAllString(text, "${1}do local value = $3; $2 = value end")
}

func shaOf(text string) string {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

// interpreter runs scripts on a store, with the conversions of Redis.
type interpreter struct {
	state *lua.LState
	store *store
	known map[string]string // texts by their names
}

func newInterpreter(s *store) *interpreter {
	i := &interpreter{state: lua.NewState(lua.Options{SkipOpenLibs: true}), store: s, known: map[string]string{}}
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath,
	} {
		i.state.Push(i.state.NewFunction(open))
		i.state.Push(lua.LString(name))
		i.state.Call(1, 0)
	}
	redis := i.state.NewTable()
	redis.RawSetString("call", i.state.NewFunction(i.call))
	redis.RawSetString("pcall", i.state.NewFunction(i.pcall))
	i.state.SetGlobal("redis", redis)
	return i
}

func (i *interpreter) close() { i.state.Close() }

// run runs a script as a whole: nothing comes between its commands.
func (i *interpreter) run(text string, keys, args []string) (any, error) {
	proto, err := compile(text)
	if err != nil {
		return nil, failure(err.Error())
	}
	i.store.begin()
	defer i.store.end()
	i.state.SetGlobal("KEYS", i.texts(keys))
	i.state.SetGlobal("ARGV", i.texts(args))
	err = i.state.CallByParam(lua.P{Fn: i.state.NewFunctionFromProto(proto), NRet: 1, Protect: true})
	if err != nil {
		return nil, scriptFailure(err)
	}
	reply := i.state.Get(-1)
	i.state.Pop(1)
	return fromLua(reply)
}

// scriptFailure is what a client hears of a script that ended with an error.
func scriptFailure(err error) failure {
	if e, ok := err.(*lua.ApiError); ok { //nolint:errorlint // it comes from CallByParam itself
		if t, ok := e.Object.(*lua.LTable); ok {
			return failure(lua.LVAsString(t.RawGetString("err")) + " script: on @user_script.")
		}
		return failure("ERR " + e.Object.String())
	}
	return failure("ERR " + err.Error())
}

func (i *interpreter) texts(list []string) *lua.LTable {
	t := i.state.CreateTable(len(list), 0)
	for _, s := range list {
		t.Append(lua.LString(s))
	}
	return t
}

func (i *interpreter) command(l *lua.LState) (lua.LValue, error) {
	words := make([]string, l.GetTop())
	for n := range words {
		switch v := l.Get(n + 1).(type) {
		case lua.LString:
			words[n] = string(v)
		case lua.LNumber:
			words[n] = numberText(v)
		default:
			return nil, failure("ERR Lua redis lib command arguments must be strings or integers")
		}
	}
	if len(words) == 0 {
		return nil, failure("ERR Please specify at least one argument for this redis.call() call")
	}
	reply, err := i.store.do(words)
	if err != nil {
		return nil, err
	}
	return i.toLua(reply), nil
}

func numberText(n lua.LNumber) string { return fmt.Sprintf("%.17g", float64(n)) }

func (i *interpreter) failed(err error) *lua.LTable {
	t := i.state.NewTable()
	t.RawSetString("err", lua.LString(err.Error()))
	return t
}

func (i *interpreter) call(l *lua.LState) int {
	v, err := i.command(l)
	if err != nil {
		l.Error(i.failed(err), 1)
		return 0
	}
	l.Push(v)
	return 1
}

func (i *interpreter) pcall(l *lua.LState) int {
	v, err := i.command(l)
	if err != nil {
		v = i.failed(err)
	}
	l.Push(v)
	return 1
}

func (i *interpreter) toLua(reply any) lua.LValue {
	switch v := reply.(type) {
	case string:
		return lua.LString(v)
	case int64:
		return lua.LNumber(v)
	case status:
		t := i.state.NewTable()
		t.RawSetString("ok", lua.LString(v))
		return t
	case []any:
		t := i.state.CreateTable(len(v), 0)
		for n, one := range v {
			t.RawSetInt(n+1, i.toLua(one))
		}
		return t
	}
	return lua.LFalse
}

// fromLua is what a script's value becomes for its client.
func fromLua(v lua.LValue) (any, error) {
	switch v := v.(type) {
	case lua.LString:
		return string(v), nil
	case lua.LNumber:
		return int64(v), nil
	case lua.LBool:
		if v {
			return int64(1), nil
		}
		return nil, nil
	case *lua.LTable:
		if e, ok := v.RawGetString("err").(lua.LString); ok {
			return nil, failure(e)
		}
		if s, ok := v.RawGetString("ok").(lua.LString); ok {
			return status(s), nil
		}
		out := []any{}
		for n := 1; ; n++ {
			one := v.RawGetInt(n)
			if one == lua.LNil {
				return out, nil
			}
			converted, err := fromLua(one)
			if err != nil {
				return nil, err
			}
			out = append(out, converted)
		}
	}
	return nil, nil
}

// execute runs what a client sent: a script or one command.
func (i *interpreter) execute(words []string) (any, error) {
	switch strings.ToLower(words[0]) {
	case "eval", "evalsha":
	default:
		i.store.begin()
		defer i.store.end()
		return i.store.do(words)
	}
	text, known := words[1], true
	if strings.EqualFold(words[0], "evalsha") {
		text, known = i.known[words[1]]
	} else {
		i.known[shaOf(text)] = text
	}
	if !known {
		return nil, failure("NOSCRIPT No matching script. Please use EVAL.")
	}
	var n int
	if _, err := fmt.Sscan(words[2], &n); err != nil || n < 0 || n > len(words)-3 {
		return nil, errNotNumber
	}
	return i.run(text, words[3:3+n], words[3+n:])
}
