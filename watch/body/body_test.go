package body

import (
	"cmp"
	"errors"
	"strings"
	"testing"

	"lockstep/internal/must"
)

func TestCheck(t *testing.T) {
	for text, ok := range map[string]bool{
		"{{.event}} {{index .args \"to\"}} {{if and .removed (eq .event \"A\")}}x{{else}}y{{end}}{{range $k, $v := .args}}{{$k}}{{end}}{{with .args}}{{.to}}{{end}}": true,
		"{{$amount := .args.amount}}{{units $amount 6 | short}}": true,
		"{{.event":                                               false,
		"{{printf \"%1000000d\" 1}}":                             false,
		"{{print .event}}":                                       false,
		"{{.event | html}}":                                      false,
		"{{call .event}}":                                        false,
		"{{_printed .event}}":                                    false,
		"{{if (printf \"x\")}}{{end}}":                           false,
		"{{(slice .event 1).x}}":                                 false,
		"{{range 1000000000}}{{end}}":                            false,
		"{{$n := 1000000000}}{{range $n}}{{end}}":                false,
		"{{define \"a\"}}{{end}}x":                               false,
		"{{block \"a\" .}}{{end}}":                               false,
		"{{template \"template\" .}}":                            false,
		"{{with .args}}{{else}}{{js .x}}{{end}}":                 false,
		strings.Repeat("x", maxTemplate+1):                       false,
		"{{range .args}}{{range .}}{{urlquery .}}{{end}}{{end}}": false,
	} {
		if err := Check(text); (err == nil) != ok {
			t.Errorf("%.60s: %v", text, err)
		}
	}
}

// FuzzReceivers holds what every receiver asks for, whatever strangers write.
func FuzzReceivers(f *testing.F) {
	f.Add("<!channel>", "E")
	f.Add("\\", "`")
	f.Add(strings.Repeat("𝄞*", 5000), "&")
	targets := map[string]string{Telegram: "https://x/bot/sendMessage?chat_id=1", PagerDuty: "https://x/?routing_key=1"}
	f.Fuzz(func(t *testing.T, note, name string) {
		for kind := range receivers {
			target := targets[kind]
			target = cmp.Or(target, "https://x/")
			m := must.Get(New(kind, "", target))(t)
			event := `{"event":"E","watch":"w","chain":1,"args":{"note":"` + inJSON(note) + `","` + inJSON(name) + `x":["` + inJSON(note) + `"]}}`
			text, err := m.Make([]byte(event))
			if err != nil && !errors.Is(err, ErrTooLong) || errors.Is(err, ErrTooLong) && len(name)+len(note) < 500 {
				t.Errorf("%s: %v", kind, err)
			}
			if len(text) > pagerDutyBody+8<<10 {
				t.Errorf("%s: %d bytes", kind, len(text))
			}
		}
	})
}
