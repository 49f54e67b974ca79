package redisx

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// asOne runs commands one after the other, as a pipeline does: one that fails does not keep
// the others from running. KEYS has the key of each; ARGV has of each how many words it has
// without the key, and these words, of which the name is the first. It returns the first error.
var asOne = redis.NewScript(`
local at, failed = 1, nil
for _, key in ipairs(KEYS) do
  local words = tonumber(ARGV[at])
  local answer = redis.pcall(ARGV[at + 1], key, unpack(ARGV, at + 2, at + words))
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
// error is that of the first one that failed.
func AsOne(ctx context.Context, c redis.UniversalClient, queue func(redis.Pipeliner)) error {
	p := c.Pipeline()
	queue(p)
	commands := p.Cmds()
	keys, words, ok := oneScript(commands)
	if _, cluster := c.(*redis.ClusterClient); cluster || !ok || len(commands) < 2 {
		_, err := p.Exec(ctx)
		return err
	}
	err := asOne.Run(ctx, c, keys, words...).Err()
	if err == redis.Nil { //nolint:errorlint // never wrapped: the script had nothing to say
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
