package redisx

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// asOne runs commands one after the other, as a pipeline does: one that fails does not keep
// the others from running. KEYS has the key of each; ARGV has of each how many words it has
// without the key, and these words, of which the name is the first. It returns the first error.
//
// While Redis is short of memory SET is not run: values are long, members of sets are not.
var asOne = redis.NewScript(SpareLua + `
local function run(name, key, ...)
  if name == 'set' and short() then return short_of_memory end
  return redis.pcall(name, key, ...)
end
local at, failed = 1, nil
for _, key in ipairs(KEYS) do
  local words = tonumber(ARGV[at])
  local answer = run(ARGV[at + 1], key, unpack(ARGV, at + 2, at + words))
  if type(answer) == 'table' and answer.err and not failed then failed = answer end
  at = at + words + 1
end
return failed`)

// asOneWords is how many words a command in a script may have: they go through the stack
// of Lua, which is not large.
const asOneWords = 4000

// AsOne sends the commands that queue puts into a pipeline as a single one, a script, where
// one server has all keys; in a cluster, or if there is only one, they are sent as they are.
// Every command must have exactly one key, as its second word. Their answers are lost; the
// error is that of the first one that failed. While Redis is short of memory no SET is run;
// see SpareLua.
func AsOne(ctx context.Context, c redis.UniversalClient, queue func(redis.Pipeliner)) error {
	p := c.Pipeline()
	queue(p)
	commands := p.Cmds()
	if _, cluster := c.(*redis.ClusterClient); cluster {
		return oneByOne(ctx, c, commands)
	}
	keys, words, ok := oneScript(commands)
	if !ok || len(commands) == 1 && !isSet(commands[0]) {
		_, err := p.Exec(ctx)
		return err
	}
	return ignoreNil(asOne.Run(ctx, c, keys, words...).Err())
}

func isSet(command redis.Cmder) bool { return command.Name() == "set" }

// oneByOne sends each command in a pipeline, a SET as a script.
func oneByOne(ctx context.Context, c redis.UniversalClient, commands []redis.Cmder) error {
	p := c.Pipeline()
	for _, command := range commands {
		keys, words, ok := oneScript([]redis.Cmder{command})
		if ok && isSet(command) {
			asOne.Eval(ctx, p, keys, words...)
		} else {
			_ = p.Process(ctx, command) // its error is that of the pipeline
		}
	}
	sent, err := p.Exec(ctx)
	for _, command := range sent {
		if err = ignoreNil(command.Err()); err != nil {
			return err
		}
	}
	return ignoreNil(err)
}

// ignoreNil makes nothing of the error that says that a script had nothing to say.
func ignoreNil(err error) error {
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

// oneScript returns the keys and arguments for asOne; ok is false if a command is too long.
func oneScript(commands []redis.Cmder) (keys []string, words []any, ok bool) {
	for _, c := range commands {
		args := c.Args()
		key, isText := args[1].(string)
		if !isText || len(args) > asOneWords {
			return nil, nil, false
		}
		keys = append(keys, key)
		words = append(words, len(args)-1, args[0])
		words = append(words, args[2:]...)
	}
	return keys, words, true
}
