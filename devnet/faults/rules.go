package faults

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"lockstep/devnet/mirrorrest"
	"lockstep/devnet/node"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// Rule is one rule as it is written; the package comment explains the fields.
type Rule struct {
	At     string  `json:"at"`
	Node   *int    `json:"node,omitempty"`
	Body   string  `json:"body,omitempty"`
	Path   string  `json:"path,omitempty"`
	Skip   int     `json:"skip,omitempty"`
	Times  int     `json:"times,omitempty"`
	Chance float64 `json:"chance,omitempty"`

	Delay      duration `json:"delay,omitempty"`
	GoAway     bool     `json:"goAway,omitempty"`
	DropBefore bool     `json:"dropBefore,omitempty"`
	GRPC       string   `json:"grpc,omitempty"`
	Status     string   `json:"status,omitempty"`
	Vanish     bool     `json:"vanish,omitempty"`
	Lose       bool     `json:"lose,omitempty"`
	Outcome    string   `json:"outcome,omitempty"`
	DropAfter  bool     `json:"dropAfter,omitempty"`

	Pause      duration `json:"pause,omitempty"`
	Hang       bool     `json:"hang,omitempty"`
	Drop       bool     `json:"drop,omitempty"`
	HTTPStatus int      `json:"httpStatus,omitempty"`
	RetryAfter duration `json:"retryAfter,omitempty"`
	Garbage    bool     `json:"garbage,omitempty"`
	Cut        bool     `json:"cut,omitempty"`

	Fitted  int `json:"fitted"`  // calls that fitted so far
	Spoiled int `json:"spoiled"` // calls that were spoiled
}

// duration is written as "1.5s".
type duration time.Duration

func (d duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err == nil && parsed < 0 {
		err = errors.New("negative")
	}
	*d = duration(parsed)
	return err
}

// Where a rule may apply.
const (
	atSubmit  = "submit"
	atReceipt = "receipt"
	atQuery   = "query"
	atMirror  = "mirror"
)

// Rules are the rules in force. The zero value has none.
type Rules struct {
	mu   sync.Mutex
	list []Rule
}

// maxRules bounds how many rules there may be.
const maxRules = 1000

// Set replaces all rules by those in a JSON array. An error changes nothing.
func (r *Rules) Set(text []byte) error {
	var list []Rule
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&list); err != nil {
		return fmt.Errorf("read rules: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("read rules: more than one array")
	}
	if len(list) > maxRules {
		return fmt.Errorf("%d rules: the maximum is %d", len(list), maxRules)
	}
	for i := range list {
		list[i].Fitted, list[i].Spoiled = 0, 0
		if err := list[i].check(); err != nil {
			return fmt.Errorf("rule %d: %w", i, err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = list
	return nil
}

// JSON returns the rules with their counts.
func (r *Rules) JSON() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.list == nil {
		return []byte("[]"), nil
	}
	return json.Marshal(r.list)
}

func (rule *Rule) check() error {
	switch rule.At {
	case atSubmit, atReceipt, atQuery, atMirror:
	default:
		return fmt.Errorf("at %q: want submit, receipt, query or mirror", rule.At)
	}
	for _, name := range []string{rule.Status, rule.Outcome} {
		if _, ok := hedera.ParseStatus(name); name != "" && !ok {
			return fmt.Errorf("%q is no status", name)
		}
	}
	if _, err := rule.code(); err != nil {
		return err
	}
	if rule.Chance < 0 || rule.Chance > 1 {
		return fmt.Errorf("chance %v: want 0 to 1", rule.Chance)
	}
	if rule.HTTPStatus != 0 && (rule.HTTPStatus < 400 || rule.HTTPStatus > 599) {
		return fmt.Errorf("httpStatus %d: want 400 to 599", rule.HTTPStatus)
	}
	return nil
}

// code is the error of gRPC that the rule answers with, or codes.OK.
func (rule *Rule) code() (code codes.Code, err error) {
	if rule.GRPC != "" && code.UnmarshalJSON([]byte(strconv.Quote(rule.GRPC))) != nil {
		return code, fmt.Errorf("grpc %q is no code of gRPC", rule.GRPC)
	}
	return code, nil
}

// pick returns the rule that decides on a call, and false if none does.
func (r *Rules) pick(fits func(*Rule) bool) (Rule, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.list {
		rule := &r.list[i]
		if rule.Times > 0 && rule.Spoiled >= rule.Times || !fits(rule) {
			continue
		}
		rule.Fitted++
		if rule.Fitted <= rule.Skip || rule.Chance > 0 && rand.Float64() >= rule.Chance {
			continue
		}
		rule.Spoiled++
		return *rule, true
	}
	return Rule{}, false
}

// Node decides on a call to a consensus node.
func (r *Rules) Node(call node.Call) node.Fault {
	at, body := atSubmit, ""
	switch {
	case call.Query.GetTransactionGetReceipt() != nil:
		at = atReceipt
	case call.Query != nil:
		at = atQuery
	case call.Submission != nil:
		body = bodyName(call.Submission.Body)
	}
	rule, ok := r.pick(func(rule *Rule) bool {
		return rule.At == at && (rule.Node == nil || *rule.Node == call.Node) && (rule.Body == "" || rule.Body == body)
	})
	if !ok {
		return node.Fault{}
	}
	fault := node.Fault{
		Delay: time.Duration(rule.Delay), GoAway: rule.GoAway, DropBefore: rule.DropBefore, Vanish: rule.Vanish, Lose: rule.Lose, DropAfter: rule.DropAfter,
	}
	fault.Code, _ = rule.code() // checked by Set, as all below; 0 for none
	fault.Status, _ = hedera.ParseStatus(rule.Status)
	fault.Outcome, _ = hedera.ParseStatus(rule.Outcome)
	return fault
}

// bodyName is what a transaction is, by the name of the member of its body's data.
func bodyName(body *hapi.TransactionBody) string {
	m := body.ProtoReflect()
	if field := m.WhichOneof(m.Descriptor().Oneofs().ByName("data")); field != nil {
		return string(field.Name())
	}
	return ""
}

// Mirror decides on a request to the mirror node.
func (r *Rules) Mirror(request *http.Request) mirrorrest.Fault {
	rule, ok := r.pick(func(rule *Rule) bool {
		return rule.At == atMirror && strings.Contains(request.URL.Path, rule.Path)
	})
	if !ok {
		return mirrorrest.Fault{}
	}
	return mirrorrest.Fault{
		Delay: time.Duration(rule.Delay), Pause: time.Duration(rule.Pause), Hang: rule.Hang, Drop: rule.Drop,
		Status: rule.HTTPStatus, RetryAfter: time.Duration(rule.RetryAfter), Garbage: rule.Garbage, Cut: rule.Cut,
	}
}
