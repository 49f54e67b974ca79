package sinks_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"lockstep/internal/secret"
	"lockstep/watch"
	"lockstep/watch/sinks"
	"lockstep/watch/watchtest"
)

// taker stands for one of the services: it refuses what that refuses, and says how a text looks to its people, without marks. The first post is one too many.
type taker struct {
	query string // of the sink's URL
	path  string
	// take checks a body and returns the text that people see, or the answer that refuses it.
	take func(r *http.Request, body map[string]any) (seen string, status int, answer string)
	// busy answers the first post.
	busy func(w http.ResponseWriter)
	wait time.Duration // that it asks for
	ok   int
}

// utf16Length is the length of a text as Telegram counts it.
func utf16Length(text string) int { return len(utf16.Encode([]rune(text))) }

var telegramMarkup = regexp.MustCompile(`<(/?)([a-z]*)>|&(amp|lt|gt|quot);|[<>&]`)

// telegramText reads the HTML that Telegram takes.
func telegramText(text string) (seen string, ok bool) {
	var open []string
	ok = true
	seen = telegramMarkup.ReplaceAllStringFunc(text, func(m string) string {
		part := telegramMarkup.FindStringSubmatch(m)
		switch {
		case part[3] != "":
			return map[string]string{"amp": "&", "lt": "<", "gt": ">", "quot": `"`}[part[3]]
		case !slices.Contains([]string{"b", "i", "u", "s", "code", "pre"}, part[2]):
			ok = false
		case part[1] == "":
			open = append(open, part[2])
		case len(open) == 0 || open[len(open)-1] != part[2]:
			ok = false
		default:
			open = open[:len(open)-1]
		}
		return ""
	})
	return seen, ok && len(open) == 0
}

var takers = map[string]taker{
	"slack": {
		wait: time.Second, ok: http.StatusOK,
		busy: func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		},
		take: func(_ *http.Request, body map[string]any) (string, int, string) {
			blocks, _ := body["blocks"].([]any)
			if len(blocks) != 1 {
				return "", http.StatusBadRequest, "invalid_payload"
			}
			section := blocks[0].(map[string]any)
			text := section["text"].(map[string]any)
			seen := text["text"].(string)
			if n := utf8.RuneCountInString(seen); section["type"] != "section" || text["type"] != "mrkdwn" || n < 1 || n > 3000 {
				return "", http.StatusBadRequest, "invalid_blocks"
			}
			if strings.ContainsAny(seen, "<>") || text["verbatim"] != true {
				return "a mention or a link: " + seen, 0, ""
			}
			return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(seen), 0, ""
		},
	},
	"discord": {
		wait: 50 * time.Millisecond, ok: http.StatusOK,
		busy: func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"message":"You are being rate limited.","retry_after":0.05,"global":false}`)
		},
		take: func(r *http.Request, body map[string]any) (string, int, string) {
			content, _ := body["content"].(string)
			mentions, _ := body["allowed_mentions"].(map[string]any)
			parse, _ := mentions["parse"].([]any)
			switch n := utf8.RuneCountInString(content); {
			case n == 0:
				return "", http.StatusBadRequest, `{"message":"Cannot send an empty message","code":50006}`
			case n > 2000:
				return "", http.StatusBadRequest, `{"message":"Invalid Form Body","code":50035,"errors":{"content":{"_errors":[{"code":"BASE_TYPE_MAX_LENGTH"}]}}}`
			case r.URL.Query().Get("wait") != "true", parse == nil, len(parse) > 0:
				return "it may be lost, or mention somebody: " + content, 0, ""
			}
			var seen strings.Builder
			text := []rune(strings.ReplaceAll(content, "**", "")) // what the template itself marks
			for i := 0; i < len(text); i++ {
				switch {
				case text[i] == '\\' && i+1 < len(text):
					i++
					seen.WriteRune(text[i])
				case strings.ContainsRune("*_~`|<>[]()@#", text[i]):
					return "markup: " + content, 0, ""
				default:
					seen.WriteRune(text[i])
				}
			}
			return seen.String(), 0, ""
		},
	},
	"telegram": {
		path: "/bot1:x/sendMessage", query: "?chat_id=-1001", wait: time.Second, ok: http.StatusOK,
		busy: func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 1","parameters":{"retry_after":1}}`)
		},
		take: func(r *http.Request, body map[string]any) (string, int, string) {
			text, _ := body["text"].(string)
			seen, ok := telegramText(text)
			refuse := func(why string) (string, int, string) {
				return "", http.StatusBadRequest, `{"ok":false,"error_code":400,"description":"Bad Request: ` + why + `"}`
			}
			switch n := utf16Length(seen); {
			case r.URL.RawQuery != "" || body["chat_id"] != "-1001":
				return refuse("chat not found")
			case body["parse_mode"] != "HTML" || !ok:
				return refuse("can't parse entities: Unsupported start tag")
			case n < 1 || n > 4096:
				return refuse("message is too long")
			}
			return seen, 0, ""
		},
	},
	"pagerduty": {
		path: "/v2/enqueue", query: "?routing_key=0123456789abcdef0123456789abcdef&severity=error", wait: time.Second, ok: http.StatusAccepted,
		busy: func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", time.Now().Add(time.Second).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusTooManyRequests)
		},
		take: func(_ *http.Request, body map[string]any) (string, int, string) {
			payload, _ := body["payload"].(map[string]any)
			text := func(v any) string { s, _ := v.(string); return s }
			summary, key := text(payload["summary"]), text(body["dedup_key"])
			_, at := time.Parse(time.RFC3339, text(payload["timestamp"]))
			switch {
			case len(text(body["routing_key"])) != 32:
				return "", http.StatusBadRequest, `{"status":"invalid event","message":"Event object is invalid","errors":["'routing_key' is invalid"]}`
			case !slices.Contains([]string{"trigger", "acknowledge", "resolve"}, text(body["event_action"])), key == "", len(key) > 255, summary == "", utf8.RuneCountInString(summary) > 1024,
				text(payload["source"]) == "", text(payload["severity"]) != "error", at != nil:
				return "", http.StatusBadRequest, `{"status":"invalid event","message":"Event object is invalid","errors":["Length of 'summary' is incorrect"]}`
			}
			return fmt.Sprint(body["event_action"], " ", key, " ", summary), 0, ""
		},
	},
}

// strangers is what a stranger may write into an event, and what people are to see of it.
const (
	strangers = "<!channel> <@U1> @everyone </code></b><a href=\"https://x.y\">&amp; [a](https://x.y) **b** `c` ~d~ ||e||\ncontract: 0xfee\u202e\x07"
	harmless  = "<!channel> <@U1> @everyone </code></b><a href=\"https://x.y\">&amp; [a](https://x.y) **b** `c` ~d~ ||e|| contract: 0xfee"
)

func strangersEvents(t *testing.T) []watch.Message {
	t.Helper()
	batch := messages(1, 4)
	for i := range batch {
		m := &batch[i]
		args := map[string]any{"note": strangers, "amount": "115792089237316195423570985008687907853269984665640564039457584007913129639935"}
		switch i {
		case 1:
			args["long"] = strings.Repeat("<&*\"𝄞", 200_000)
		case 2:
			m.Removed = true
		case 3:
			for n := range 64 {
				args[fmt.Sprintf("argument%02d", n)] = strings.Repeat("*<", 60)
			}
			delete(args, "note")
		}
		m.ID = "w:31337:0x" + strings.Repeat("ab", 32) + ":7"
		m.Timestamp, m.Args = 1795372316, json.RawMessage(mustBe(json.Marshal(args)))
		m.Body = mustBe(json.Marshal(m.Event))
	}
	return batch
}

func mustBe[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestReceivers hands events of strangers to services that are as strict as those of that name.
func TestReceivers(t *testing.T) {
	for kind, of := range takers {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var seen []string
			var busyUntil time.Time
			d := deps(t)
			check := mustBe(standard.NewWebhook(d.WebhookSecrets[0].Reveal()))
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				text, _ := io.ReadAll(r.Body)
				mu.Lock()
				defer mu.Unlock()
				var body map[string]any
				if err := errors.Join(check.Verify(text, r.Header), json.Unmarshal(text, &body)); err != nil || strings.TrimSuffix(r.URL.Path, "/") != of.path {
					t.Error(r.URL.Path, err)
				}
				if busyUntil.IsZero() {
					busyUntil = time.Now().Add(of.wait).Truncate(time.Second / 100) // what a date says is whole seconds
					of.busy(w)
					return
				}
				if kind != "pagerduty" && time.Now().Before(busyUntil) {
					t.Error("a post before the time that was asked for")
				}
				people, status, answer := of.take(r, body)
				if status != 0 {
					w.WriteHeader(status)
					_, _ = io.WriteString(w, answer)
					return
				}
				seen = append(seen, people)
				w.WriteHeader(of.ok)
			}))
			defer service.Close()
			batch := strangersEvents(t)
			publish(t, kind+":"+service.URL+of.path+of.query, d, batch)
			mu.Lock()
			defer mu.Unlock()
			if len(seen) != len(batch) {
				t.Fatalf("%d of %d: %q", len(seen), len(batch), seen)
			}
			for i, text := range seen {
				if i < 3 && !strings.Contains(text, harmless) || i == 3 && strings.Contains(text, "note") {
					t.Errorf("message %d: %s", i, text)
				}
				if strings.Contains(text, "\ncontract: 0xfee") {
					t.Errorf("a line of a stranger: %s", text)
				}
			}
			if told := strings.Contains(seen[2], "removed") || strings.HasPrefix(seen[2], "resolve w:31337:0xabab"); !told {
				t.Errorf("the removal: %s", seen[2])
			}
		})
	}
}

// TestReceiversRefuse tells what can never be taken from what somebody can mend.
func TestReceiversRefuse(t *testing.T) {
	for _, c := range []struct {
		kind, path string
		status     int
		answer     string
		settled    bool
	}{
		{"slack", "", 400, "invalid_blocks", true},
		{"slack", "", 404, "no_service", false},
		{"slack", "", 403, "action_prohibited", false},
		{"discord", "", 400, `{"message":"Invalid Form Body","code":50035}`, true},
		{"discord", "", 404, `{"message":"Unknown Webhook","code":10015}`, false},
		{"telegram", "/bot1:x/sendMessage?chat_id=1", 400, `{"ok":false,"description":"Bad Request: can't parse entities: x"}`, true},
		{"telegram", "/bot1:x/sendMessage?chat_id=1", 400, `{"ok":false,"description":"Bad Request: chat not found"}`, false},
		{"telegram", "/bot1:x/sendMessage?chat_id=1", 401, `{"ok":false,"description":"Unauthorized"}`, false},
		{"pagerduty", "?routing_key=hunter2", 400, `{"status":"invalid event","message":"Event object is invalid","errors":["Length of 'summary' is incorrect"]}`, true},
		{"pagerduty", "?routing_key=hunter2", 400, `{"status":"invalid event","message":"Event object is invalid","errors":["Invalid routing key"]}`, false},
		{"slack", "", 500, "", false},
	} {
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.answer)
		}))
		sink := mustBe(sinks.New(c.kind+":"+service.URL+c.path, deps(t)))
		watchtest.Until(t, "the receiver answers", func() (bool, error) {
			_, err := offer(t.Context(), sink, messages(1, 1))
			if !strings.Contains(fmt.Sprint(err), fmt.Sprint("answered ", c.status)) {
				return false, err
			}
			if errors.Is(err, watch.ErrSettled) != c.settled || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "1:x") {
				t.Errorf("%s %d %s: %v", c.kind, c.status, c.answer, err)
			}
			return true, nil
		})
		service.Close()
	}
}

// TestTemplate has bodies of one's own: signed over what is sent, JSON whatever a stranger writes.
func TestTemplate(t *testing.T) {
	var mu sync.Mutex
	var bodies []map[string]any
	d := deps(t)
	d.Plan = &watch.Plan{Templates: map[string]string{
		"brief": `{"what": "{{.event}} of {{short .address}}", "amount": "{{units .args.amount 18}}", "at": "{{time .timestamp}}", "note": "{{.args.note}}", "none": "{{.args.other}}", "all": {{json .args}}}`,
		"wrong": `{"note": {{.args.note}}}`,
	}}
	check := mustBe(standard.NewWebhook(d.WebhookSecrets[0].Reveal()))
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		var body map[string]any
		if err := errors.Join(check.Verify(text, r.Header), json.Unmarshal(text, &body)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		bodies = append(bodies, body)
	}))
	defer service.Close()
	m := messages(1, 1)[0]
	m.Address, m.Timestamp = "0x5FbDB2315678afecb367f032d93F642f64180aa3", 1795372316
	m.Args = json.RawMessage(`{"amount":"1500000000000000000","note":"a\",\"admin\":true,\"b\":\"\\"}`)
	m.Body = mustBe(json.Marshal(m.Event))
	publish(t, "webhook+brief:"+service.URL, d, []watch.Message{m})
	mu.Lock()
	defer mu.Unlock()
	last := bodies[len(bodies)-1]
	for name, want := range map[string]string{"what": "E of 0x5FbD…0aa3", "amount": "1.5", "at": "2026-11-22T18:31:56Z", "note": `a","admin":true,"b":"\`, "none": ""} {
		if last[name] != want {
			t.Errorf("%s is %q, want %q", name, last[name], want)
		}
	}
	if last["admin"] != nil || last["all"].(map[string]any)["amount"] != "1500000000000000000" {
		t.Errorf("%v", last)
	}
	sink := mustBe(sinks.New("webhook+wrong:"+service.URL, d))
	if _, err := offer(t.Context(), sink, []watch.Message{m}); !errors.Is(err, watch.ErrSettled) {
		t.Errorf("what is no JSON: %v", err)
	}
	d.WebhookSecrets = []secret.String{}
	if _, err := sinks.New("webhook+brief:"+service.URL, d); err == nil {
		t.Error("a webhook without a secret to sign with was accepted")
	}
}
