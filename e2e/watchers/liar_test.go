package watchers

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
)

// kinds are the ways in which endpoints lie in bad hours.
var kinds = []string{"empty", "null", "doubled", "of another block", "late", "no block"}

// lies counts the lies of a liar by their kinds.
type lies [6]atomic.Int64

// liar passes calls on to a node, and lies about one question for logs in so many: with nothing, with null, with each log twice, with logs of
// another block, or late; and now and then it has no block that is asked for.
func liar(t *testing.T, node string, odds int, told *lies) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		ask, err := http.NewRequestWithContext(r.Context(), http.MethodPost, node, bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		ask.Header.Set("Content-Type", "application/json")
		answer, err := http.DefaultClient.Do(ask)
		if err != nil { // whoever asked is gone
			return
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil {
			return
		}
		if lie, late := spoiled(body, text, odds, told); late {
			select {
			case <-r.Context().Done():
			case <-time.After(3 * time.Second):
			}
		} else {
			text = lie
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
	V      string          `json:"jsonrpc"`
}

// spoiled changes answers now and then.
func spoiled(questions, answers []byte, odds int, told *lies) (text []byte, late bool) {
	var asked, said []message
	alone := json.Unmarshal(questions, &asked) != nil
	if alone {
		asked, said = make([]message, 1), make([]message, 1)
		if json.Unmarshal(questions, &asked[0]) != nil || json.Unmarshal(answers, &said[0]) != nil {
			return answers, false
		}
	} else if json.Unmarshal(answers, &said) != nil {
		return answers, false
	}
	for i := range said {
		for _, q := range asked {
			if !bytes.Equal(q.ID, said[i].ID) || said[i].Error != nil || rand.IntN(odds) > 0 {
				continue
			}
			if strings.HasPrefix(q.Method, "eth_getBlockBy") {
				said[i].Result = json.RawMessage("null")
				told[5].Add(1)
			}
			var logs []map[string]any
			if q.Method != "eth_getLogs" || json.Unmarshal(said[i].Result, &logs) != nil || len(logs) == 0 {
				continue
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
				return answers, true
			}
			said[i].Result, _ = json.Marshal(logs) // what was read as JSON
		}
	}
	if alone {
		text, _ = json.Marshal(said[0])
	} else {
		text, _ = json.Marshal(said)
	}
	return text, false
}
