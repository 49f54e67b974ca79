package watchers

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/watch/watchtest"
)

// kinds are the ways in which endpoints lie in bad hours.
var kinds = []string{"empty", "null", "doubled", "of another block", "late", "no block"}

// lies counts the lies of a liar by their kinds.
type lies [6]atomic.Int64

// liar passes calls on to a node, and lies about one question for logs in so many: with nothing, with null, with each log twice, with logs of
// another block, or late; and now and then it has no block that is asked for.
func liar(t *testing.T, node string, odds int, told *lies) string {
	return watchtest.Proxy(t, node, func(c *watchtest.Call) {
		c.Ask()
		if c.Error != nil || rand.IntN(odds) > 0 {
			return
		}
		if strings.HasPrefix(c.Method, "eth_getBlockBy") {
			c.Say(nil)
			told[5].Add(1)
		}
		var logs []map[string]any
		if c.Method != "eth_getLogs" || json.Unmarshal(c.Result, &logs) != nil || len(logs) == 0 {
			return
		}
		kind := rand.IntN(5)
		told[kind].Add(1)
		switch kind {
		case 0:
			logs = []map[string]any{}
		case 1:
			logs = nil
		case 2:
			logs = append(logs, logs...)
		case 3:
			for _, l := range logs {
				l["blockHash"] = common.Hash{1}
			}
		default:
			select {
			case <-c.Context.Done():
			case <-time.After(3 * time.Second):
			}
		}
		c.Say(logs)
	})
}
