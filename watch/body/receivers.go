package body

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// What the receivers ask for is in their references: docs.slack.dev (incoming webhooks, text object), docs.discord.com (execute webhook, rate
// limits), core.telegram.org/bots/api (sendMessage), developer.pagerduty.com (Events API v2).
const (
	slackSection     = 3000 // characters of a section's text
	discordContent   = 2000
	telegramText     = 4096
	pagerDutySummary = 1024
	pagerDutyBody    = 512 << 10 // bytes
	webhookBody      = 256 << 10 // of a template of one's own
)

var receivers = map[string]receiver{
	Webhook: {escape: inJSON, limit: webhookBody, template: "{{json .}}"},
	Slack: {
		escape: strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace, limit: slackSection,
		template: "*{{.event}}* of `{{.watch}}` on chain {{.chain}}{{if .removed}}: *removed, it has not happened*{{end}}\n" + lines("`", "`"),
		envelope: func(text string, event map[string]any, _ url.Values) any {
			section := map[string]any{"type": "section", "text": map[string]any{"type": "mrkdwn", "text": text, "verbatim": true}}
			return map[string]any{"text": said(event["event"]) + " of " + said(event["watch"]), "blocks": []any{section}, "unfurl_links": false, "unfurl_media": false}
		},
		judge: judgeSlack,
	},
	Discord: {
		escape: escapeDiscord, limit: discordContent, query: url.Values{"wait": {"true"}}, // without it the answer comes before the message is stored
		template: "**{{.event}}** of {{.watch}} on chain {{.chain}}{{if .removed}}: **removed, it has not happened**{{end}}\n" + lines("", ""),
		envelope: func(text string, _ map[string]any, _ url.Values) any {
			return map[string]any{"content": text, "allowed_mentions": map[string]any{"parse": []string{}}, "flags": suppressEmbeds}
		},
		judge: judgeDiscord,
	},
	Telegram: {
		escape: strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace, limit: telegramText, path: "/sendMessage",
		options: map[string][]string{"chat_id": nil, "message_thread_id": nil}, needed: []string{"chat_id"},
		template: "<b>{{.event}}</b> of {{.watch}} on chain {{.chain}}{{if .removed}}: <b>removed, it has not happened</b>{{end}}\n" + lines("<code>", "</code>"), // in code nothing becomes a link or a mention
		envelope: func(text string, _ map[string]any, options url.Values) any {
			body := map[string]any{"text": text, "parse_mode": "HTML", "link_preview_options": map[string]any{"is_disabled": true}}
			for name := range options {
				body[name] = options.Get(name)
			}
			return body
		},
		judge: judgeTelegram,
	},
	PagerDuty: {
		escape: func(s string) string { return s }, limit: pagerDutySummary,
		options: map[string][]string{"routing_key": nil, "severity": {"critical", "error", "warning", "info"}}, needed: []string{"routing_key"},
		template: "{{.event}} of {{.watch}} on chain {{.chain}}:{{range $name, $value := .args}} {{$name}} {{$value}}{{end}}",
		envelope: alert,
		judge:    judgePagerDuty,
	},
}

// lines are the arguments of an event and where it is, between marks.
func lines(before, after string) string {
	return "{{range $name, $value := .args}}{{$name}}: " + before + "{{$value}}" + after + "\n{{end}}{{if .undecoded}}its data do not fit its signature\n{{end}}" +
		"contract: " + before + "{{.address}}" + after + "\ntransaction: " + before + "{{.transactionHash}}" + after + ", block {{.blockNumber}}"
}

// inJSON is a text as it stands between the quotes of a JSON text.
func inJSON(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		return ""
	}
	return string(quoted[1 : len(quoted)-1])
}

// suppressEmbeds has Discord show no previews of links.
const suppressEmbeds = 1 << 2

// escapeDiscord puts a backslash before what Discord's markup has a meaning for.
func escapeDiscord(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strings.ContainsRune("\\*_~`|><#-[]()@:.", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// alert is an event of PagerDuty: the event's id is the alert's, so that a repeated message makes no second alert, and a removal resolves it.
func alert(summary string, event map[string]any, options url.Values) any {
	action := "trigger"
	if event["removed"] == true {
		action = "resolve"
	}
	severity := options.Get("severity")
	severity = cmp.Or(severity, "warning")
	details := map[string]any{}
	for _, name := range []string{"args", "address", "transactionHash", "blockNumber", "blockHash", "logIndex", "deliveryId", "seq", "undecoded"} {
		if v, there := event[name]; there {
			details[name] = v
		}
	}
	if text, err := json.Marshal(details); err != nil || len(text) > pagerDutyBody-8<<10 {
		details["args"] = "too long for PagerDuty"
	}
	return map[string]any{
		"routing_key": options.Get("routing_key"), "event_action": action, "dedup_key": clip(said(event["id"]), 255),
		"payload": map[string]any{
			"summary": summary, "source": said(event["address"]), "severity": severity, "timestamp": moment(event["timestamp"]),
			"component": said(event["watch"]), "group": "chain " + said(event["chain"]), "class": said(event["event"]), "custom_details": details,
		},
	}
}

// A message is settled where the receiver says that the message itself is wrong. What somebody can mend (a key, a channel, a permission) is not.

func judgeSlack(status int, answer []byte) Verdict {
	why := strings.TrimSpace(string(answer))
	switch why {
	case "invalid_payload", "invalid_blocks", "no_text", "msg_too_long", "msg_blocks_too_long":
		return Verdict{Settled: status == http.StatusBadRequest, Why: why}
	}
	return Verdict{Why: why}
}

func judgeDiscord(status int, answer []byte) Verdict {
	var said struct {
		Message    string  `json:"message"`
		Code       int     `json:"code"`
		RetryAfter float64 `json:"retry_after"` // seconds
	}
	_ = json.Unmarshal(answer, &said)                   // what is no JSON says nothing
	settled := said.Code == 50035 || said.Code == 50006 // Invalid Form Body, Cannot send an empty message
	return Verdict{Settled: settled && status == http.StatusBadRequest, Why: said.Message, Wait: seconds(said.RetryAfter)}
}

func judgeTelegram(status int, answer []byte) Verdict {
	var said struct {
		Description string `json:"description"`
		Parameters  struct {
			RetryAfter float64 `json:"retry_after"` // seconds
		} `json:"parameters"`
	}
	_ = json.Unmarshal(answer, &said)
	wrong := false
	for _, words := range []string{"can't parse entities", "message is too long", "text is empty", "text must be non-empty", "text must be encoded in UTF-8"} {
		wrong = wrong || strings.Contains(said.Description, words)
	}
	return Verdict{Settled: wrong && status == http.StatusBadRequest, Why: said.Description, Wait: seconds(said.Parameters.RetryAfter)}
}

func judgePagerDuty(status int, answer []byte) Verdict {
	var said struct {
		Message string   `json:"message"`
		Errors  []string `json:"errors"`
	}
	_ = json.Unmarshal(answer, &said)
	why := strings.Join(append([]string{said.Message}, said.Errors...), "; ")
	key := strings.Contains(strings.ToLower(why), "routing") || strings.Contains(strings.ToLower(why), "service key")
	return Verdict{Settled: status == http.StatusBadRequest && said.Message != "" && !key, Why: why}
}

func seconds(n float64) time.Duration {
	const longest = 24 * 60 * 60
	return time.Duration(min(max(n, 0), longest) * float64(time.Second))
}
