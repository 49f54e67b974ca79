package app_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"lockstep/devnet/ledger/devaccounts"
	"lockstep/internal/must"
	"lockstep/internal/redistest"
)

// The banner tells in one line what the relay is, and what it found is true.
func TestAnnounce(t *testing.T) {
	w := newWorld(t)
	unfit := []string{
		"another id", "another key", "a mirror node that does not know the operator", "a node that does not know the operator", "another id, and no mirror node",
	}
	untold, mirrorless := []string{"read only", "only a node knows"}, []string{"only a node knows", "another id, and no mirror node"}
	redis := []string{"REDIS_ENABLED=true", "REDIS_URL=" + redistest.Start(t).URL()}
	for name, test := range map[string]struct {
		settings []string
		line     []string // parts of the banner
		problems []string // lines of their own
		faults   string   // of nodes and mirror node, meanwhile
	}{
		"all is well": {
			[]string{"ENABLE_NONCE_ORDERING=true", "NONCE_GAP_HOLD_MS=1500", "DEBUG_API_ENABLED=true", "RPC_WS_ENABLED=false"},
			[]string{"version=test", "chain=0x12a ", "operator=\"0.0.2 (", " ℏ)", "ordering=\"on, window 1.5s\"", "redis=off", "(block 0)", "network=\"1 node by address\"", "WebSocket", "txpool methods"},
			nil, "",
		},
		"ordering off": {nil, []string{"ordering=off", "debug methods"}, nil, ""},
		"ordering for nobody": {
			[]string{"ENABLE_NONCE_ORDERING=true", "NONCE_ORDERING_PERCENT=0"}, []string{"ordering=\"on for 0 % of senders, window 250ms\""}, nil, "",
		},
		"ordering for one": {
			[]string{"ENABLE_NONCE_ORDERING=true", "NONCE_GAP_HOLD_MS=0", "NONCE_ORDERING_SENDERS=0x05FbA803Be258049A27B820088bab1cAD2058871"},
			[]string{"ordering=\"on for 1 listed sender\""},
			nil, "",
		},
		"another chain":      {[]string{"CHAIN_ID=296"}, []string{"0x128 (wrong: the network has 0x12a)"}, []string{"CHAIN_ID is not that of the network"}, ""},
		"another id":         {[]string{"OPERATOR_ID_MAIN=0.0.424242"}, []string{"there is no such account"}, []string{"OPERATOR_ID_MAIN is no account"}, ""},
		"another key":        {[]string{"OPERATOR_ID_MAIN=0.0.1002"}, []string{"the account has another key"}, []string{"OPERATOR_KEY_MAIN is not the key"}, ""},
		"an operator with 0": {[]string{"OPERATOR_ID_MAIN=0.0.50"}, []string{"0.0.50 (0 ℏ)"}, []string{"the operator has no balance"}, ""},
		"read only":          {[]string{"READ_ONLY=true", "OPERATOR_ID_MAIN=", "OPERATOR_KEY_MAIN="}, []string{"operator=\"none: read only\"", "sending"}, nil, ""},
		"a misspelt setting": {[]string{"ENABLE_NONCE_ORDERNG=true"}, []string{"ordering=off"}, []string{"name=ENABLE_NONCE_ORDERNG setting=ENABLE_NONCE_ORDERING"}, ""},
		"Redis that is away": {[]string{"REDIS_ENABLED=true", "REDIS_URL=redis://:secret@127.0.0.1:1"}, []string{"127.0.0.1:1 (does not answer)"}, []string{"Redis does not answer"}, ""},
		"a Redis of the locks that is away": {
			append([]string{"LOCK_REDIS_URL=redis://:secret@127.0.0.1:1", "ENABLE_NONCE_ORDERING=true"}, redis...),
			[]string{"; of the locks: single 127.0.0.1:1 (does not answer)"},
			[]string{"the Redis of the locks (LOCK_REDIS_URL) does not answer"},
			"",
		},
		"a Redis of the locks that is not used": {
			append([]string{"LOCK_REDIS_URL=redis://:secret@127.0.0.1:1"}, redis...), []string{"; of the locks: single 127.0.0.1:1 (not used: ordering is off)"}, nil, "",
		},
		"nodes that do not answer": {
			nil,
			[]string{"operator=\"0.0.2 (", " ℏ; not checked at a node: ", "chain=0x12a ", "(block 0)"},
			[]string{"no consensus node has told the operator's balance"},
			`[{"at":"query","grpc":"UNAVAILABLE"}]`,
		},
		"a mirror node that does not know the operator": {
			nil,
			[]string{"the mirror node knows no such account, node 0.0.3 does"},
			[]string{"disagree whether OPERATOR_ID_MAIN exists"},
			`[{"at":"mirror","path":"/accounts/0.0.2","httpStatus":404}]`,
		},
		"a node that does not know the operator": {
			nil,
			[]string{"node 0.0.3 knows no such account, the mirror node does"},
			[]string{"disagree whether OPERATOR_ID_MAIN exists"},
			`[{"at":"query","status":"INVALID_ACCOUNT_ID"}]`,
		},
		"only a node knows": {
			nil, []string{" ℏ; key not checked: "}, []string{"no mirror node answers"}, `[{"at":"mirror","httpStatus":503}]`,
		},
		"another id, and no mirror node": {
			[]string{"OPERATOR_ID_MAIN=0.0.424242"},
			[]string{"there is no such account"},
			[]string{"OPERATOR_ID_MAIN is no account"},
			`[{"at":"mirror","httpStatus":503}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			must.Do(t, w.rules.Set([]byte(cmp.Or(test.faults, "[]"))))
			r := w.relay(t, test.settings...)
			r.app.Announce(t.Context())
			lines := r.log.with("what this relay is")
			if len(lines) != 1 {
				t.Fatalf("%d lines", len(lines))
			}
			for _, part := range test.line {
				if !strings.Contains(lines[0], part) {
					t.Errorf("%q is missing in %s", part, lines[0])
				}
			}
			for _, problem := range test.problems {
				if len(r.log.with(problem)) != 1 {
					t.Errorf("%q is said %d times", problem, len(r.log.with(problem)))
				}
			}
			if errors := r.log.with("level=ERROR"); len(test.problems) == 0 && len(errors) > 0 {
				t.Errorf("%s", errors)
			}
			fits, told := r.scrape()["lockstep_operator_ok"]
			if want := !slices.Contains(untold, name); told != want || told && (fits == 1) == slices.Contains(unfit, name) {
				t.Errorf("lockstep_operator_ok: %v (%v)", fits, told)
			}
			fits, told = r.scrape()["lockstep_chain_id_ok"]
			if want := !slices.Contains(mirrorless, name); told != want || told && (fits == 1) == (name == "another chain") {
				t.Errorf("lockstep_chain_id_ok: %v (%v)", fits, told)
			}
			if told := r.log.with("secret"); len(told) > 0 || len(r.log.with(devaccounts.OperatorKey)) > 0 {
				t.Errorf("a secret in the log: %s", told)
			}
		})
	}
}
