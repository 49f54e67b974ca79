package mirrorrest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"lockstep/devnet/ledger/facts"
	"lockstep/internal/hedera"
)

// Origin is the mirror node of the network that this one is a fork of. Paths are below /api/v1/.
type Origin interface {
	// Point is the newest block that both have, and its end.
	Point() (number int64, end hedera.Timestamp)
	Get(ctx context.Context, path string) (status int, body []byte, err error)
	Post(ctx context.Context, path string, body []byte) (status int, answer []byte, err error)
}

// unavailable says that the origin failed.
func unavailable(err error) *problem { return detailed(http.StatusServiceUnavailable, err.Error()) }

// forked is a request to the mirror node of a fork. What it asks of the time up to the fork point
// the origin knows, and what came later this one. Its path is one of ours: a client chooses no other.
type forked struct {
	*request
	origin Origin
	handle handler
}

// A split is a list whose rows are in the order of a column, which tells the origin's from ours.
type split struct {
	member, column string
	edge           int64 // the origin's last value
	text           string
}

func (f *forked) answer() (any, error) {
	path := strings.TrimPrefix(f.self(), base)
	number, end := f.origin.Point()
	byTime := func(member string) split { return split{member, "timestamp", end.UnixNano(), end.String()} }
	parts := strings.Split(path, "/")
	switch {
	case f.Method == http.MethodPost:
		return f.call(number)
	case path == "blocks":
		if f.given("timestamp") {
			return f.list(byTime("blocks"))
		}
		return f.list(split{"blocks", "block.number", number, decimal(number)})
	case path == "transactions":
		return f.list(byTime("transactions"))
	case strings.HasSuffix(path, "results/logs"):
		return f.results(byTime("logs"), number)
	case path == "contracts/results", parts[0] == "contracts" && len(parts) == 3 && parts[2] == "results":
		return f.results(byTime("results"), number)
	case parts[0] == "blocks":
		return f.block(number)
	case len(parts) == 2 && parts[0] == "transactions":
		return f.single(func(body []byte) bool { return f.transactionsBefore(body, end) })
	case len(parts) >= 3 && parts[0] == "contracts" && parts[1] == "results":
		return f.result(parts, end)
	case len(parts) == 4 && parts[0] == "contracts" && parts[2] == "results":
		return f.single(func(body []byte) bool { return resultBefore(body, end) })
	}
	return f.fact(parts, end)
}

// fact answers about something as it was before the fork point, or is.
func (f *forked) fact(parts []string, end hedera.Timestamp) (any, error) {
	times := f.bounds("timestamp", parseNanos)
	if _, latest := times.span(); latest >= end.UnixNano() || !slices.Contains([]string{"accounts", "contracts", "balances", "tokens", "network"}, parts[0]) {
		return f.handle(f.request)
	}
	return f.forward(f.query().text())
}

// query is the request's as far as it is well formed. What is not, the handler refuses.
func (f *forked) query() filters { return filtersOf(f.URL.RawQuery) }

func filtersOf(raw string) (all filters) {
	for pair := range strings.SplitSeq(raw, "&") {
		if part, ok := splitPair(pair); ok {
			all = append(all, part)
		}
	}
	return all
}

func (f *forked) given(name string) bool {
	return slices.ContainsFunc(f.query(), func(p filter) bool { return p.name == name })
}

func (f *forked) last(name string) (string, bool) { return (&query{filters: f.query()}).last(name) }

func (f *forked) bounds(name string, parse func(string) (int64, bool)) bounds {
	return (&query{filters: f.query()}).bounds(name, parse)
}

// forward gives the origin's answer.
func (f *forked) forward(query string) (any, error) {
	status, body, err := f.ask(query)
	if err != nil {
		return nil, err
	}
	f.status = status
	return json.RawMessage(body), nil
}

func (f *forked) ask(query string) (status int, body []byte, err error) {
	path := strings.TrimPrefix(f.self(), base)
	if query != "" {
		path += "?" + query
	}
	return f.checked(f.origin.Get(f.Context(), path))
}

func (f *forked) checked(status int, body []byte, err error) (int, []byte, error) {
	if err == nil && !json.Valid(body) {
		err = errors.New("its answer is no JSON")
	}
	if err != nil {
		return 0, nil, unavailable(&facts.UpstreamError{Err: err})
	}
	return status, body, nil
}

// single gives our answer or, where there is nothing here, the origin's if that is of before the fork.
func (f *forked) single(before func(body []byte) bool) (any, error) {
	answer, err := f.handle(f.request)
	if p := (*problem)(nil); !errors.As(err, &p) || p.status != http.StatusNotFound {
		return answer, err
	}
	status, body, asked := f.ask(f.query().text())
	switch {
	case asked != nil:
		return nil, asked
	case status >= http.StatusMultipleChoices || !before(body):
		return nil, err
	}
	f.status = status
	return json.RawMessage(body), nil
}

func resultBefore(body []byte, end hedera.Timestamp) bool {
	var result struct{ Timestamp string }
	return json.Unmarshal(body, &result) == nil && notAfter(result.Timestamp, end)
}

func notAfter(text string, end hedera.Timestamp) bool {
	at, err := hedera.ParseTimestamp(text)
	return err == nil && at.Compare(end) <= 0
}

func (f *forked) transactionsBefore(body []byte, end hedera.Timestamp) bool {
	var list struct {
		Transactions []struct {
			At string `json:"consensus_timestamp"`
		}
	}
	return json.Unmarshal(body, &list) == nil && len(list.Transactions) > 0 && notAfter(list.Transactions[0].At, end)
}

// result answers about one result; its calls and steps do not say when it was.
func (f *forked) result(parts []string, end hedera.Timestamp) (any, error) {
	return f.single(func(body []byte) bool {
		if len(parts) == 3 {
			return resultBefore(body, end)
		}
		status, of, err := f.checked(f.origin.Get(f.Context(), strings.Join(parts[:3], "/")))
		return err == nil && status < http.StatusMultipleChoices && resultBefore(of, end)
	})
}

func (f *forked) block(number int64) (any, error) {
	if n, ok := parseCount(f.args[0]); ok {
		if n <= number {
			return f.forward("")
		}
		return f.handle(f.request)
	}
	if b, ok, _ := f.findBlock(f.args[0]); ok && b.Number > number {
		return f.handle(f.request)
	}
	status, body, err := f.ask("")
	if err != nil {
		return nil, err
	}
	var found struct{ Number int64 }
	if status == http.StatusOK && (json.Unmarshal(body, &found) != nil || found.Number > number) {
		return nil, notFound()
	}
	f.status = status
	return json.RawMessage(body), nil
}

// originHas tells whether a block is one of those that both networks have.
func (f *forked) originHas(hash string, number int64) (bool, error) {
	status, body, err := f.checked(f.origin.Get(f.Context(), "blocks/"+url.PathEscape(hash)))
	var found struct{ Number int64 }
	return err == nil && status == http.StatusOK && json.Unmarshal(body, &found) == nil && found.Number <= number, err
}

// results answers a list of results or logs, which may ask for those of a block or a transaction.
func (f *forked) results(by split, number int64) (any, error) {
	if text, ok := f.last("block.number"); ok {
		if n, ok := parseBlockNumber(text); ok && n <= number {
			return f.forward(f.query().text())
		}
		return f.handle(f.request)
	}
	if text, ok := f.last("block.hash"); ok {
		if hash, ok := parseHash(text); ok {
			if b, here := f.view.BlockByHash(hash); !here || b.Number <= number {
				if before, err := f.originHas(text, number); err != nil || !before {
					return f.joined(by.member, nil, ""), err
				}
				return f.forward(f.query().text())
			}
		}
		return f.handle(f.request)
	}
	return f.list(by)
}

// page is a part of a list.
type page struct {
	rows []json.RawMessage
	next string
}

// list answers with the origin's rows and ours, as one list.
func (f *forked) list(by split) (any, error) {
	parse := parseNanos
	if by.column == "block.number" {
		parse = parseBlockNumber
	}
	within := f.bounds(by.column, parse)
	low, high := within.span()
	asked := f.query()
	switch {
	case high <= by.edge:
		return f.forward(asked.text())
	case low > by.edge:
		return f.handle(f.request)
	}
	limit, desc, valid := f.paging()
	if !valid {
		return f.handle(f.request) // it says why
	}
	upper := filter{name: by.column, text: "lte:" + by.text}
	lower := filter{name: by.column, text: "gt:" + by.text}
	theirs, ours := f.part(asked, by, upper, lt, lte), f.part(asked, by, lower, gt, gte)
	theirs.origin = true
	if desc {
		return f.join(by.member, limit, ours, theirs)
	}
	return f.join(by.member, limit, theirs, ours)
}

// part has one bound in place of those that it makes superfluous, with what belongs to them: an index
// of events is one within the first or last time.
func (f *forked) part(asked filters, by split, bound filter, superfluous ...operator) *part {
	drop := func(p filter) bool {
		return (p.name == by.column || p.name == "index") && slices.Contains(superfluous, p.op)
	}
	return &part{
		f: f, query: append(asked.without(drop), bound), added: bound,
		dropped: asked.without(func(p filter) bool { return !drop(p) }),
	}
}

func (f *forked) paging() (limit int, desc, valid bool) {
	limit, desc = defaultLimit, true // as all lists that are split
	for _, p := range f.query() {
		switch p.name {
		case "limit":
			n, err := strconv.ParseUint(p.value, 10, 63)
			if err != nil || n == 0 {
				return 0, false, false
			}
			limit = int(min(n, maxLimit))
		case "order":
			desc = !strings.EqualFold(p.value, "asc")
		}
	}
	return limit, desc, true
}

// part is what one of the two mirror nodes has of a list.
type part struct {
	f       *forked
	query   filters
	added   filter  // which keeps it to its side of the fork point
	dropped filters // which the one that was added makes superfluous
	origin  bool
}

// join fills a page from one part and then from the other.
func (f *forked) join(member string, limit int, first, second *part) (any, error) {
	head, err := first.rows(member, limit)
	if err != nil {
		return nil, err
	}
	if head.next != "" || len(head.rows) >= limit {
		return f.joined(member, head.rows, f.linkAfter(head.next, first, second)), nil
	}
	tail, err := second.rows(member, limit-len(head.rows))
	if err != nil {
		return nil, err
	}
	if tail.next != "" {
		_, raw, _ := strings.Cut(tail.next, "?")
		limited := filtersOf(raw).without(func(p filter) bool { return p.name == "limit" })
		tail.next = f.self() + "?" + append(limited, filter{name: "limit", text: strconv.Itoa(limit)}).text()
	}
	return f.joined(member, append(head.rows, tail.rows...), tail.next), nil
}

// linkAfter leads on from a full page of the first part.
func (f *forked) linkAfter(next string, first, second *part) string {
	if next == "" {
		return f.self() + "?" + second.query.text()
	}
	_, raw, _ := strings.Cut(next, "?")
	whole := filtersOf(raw).without(func(p filter) bool { return p.name == first.added.name && p.text == first.added.text })
	return f.self() + "?" + append(whole, first.dropped...).text()
}

func (f *forked) joined(member string, rows []json.RawMessage, next string) any {
	if rows == nil {
		rows = []json.RawMessage{}
	}
	out := object{member: rows, "links": links{}}
	if next != "" {
		out["links"] = links{Next: &next}
	}
	return out
}

func (p *part) rows(member string, limit int) (page, error) {
	query := append(p.query.without(func(q filter) bool { return q.name == "limit" }), filter{name: "limit", text: strconv.Itoa(limit)})
	var body []byte
	if p.origin {
		status, text, err := p.f.ask(query.text())
		if err != nil {
			return page{}, err
		}
		if status != http.StatusOK {
			return page{}, unavailable(&facts.UpstreamError{Err: errors.New("status " + strconv.Itoa(status) + ": " + string(bytes.ToValidUTF8(text[:min(len(text), 200)], nil)))})
		}
		body = text
	} else {
		r := *p.f.request
		r.Request = r.Request.Clone(r.Context())
		r.URL.RawQuery = query.text()
		answer, err := p.f.handle(&r)
		if err != nil {
			return page{}, err
		}
		if body, err = json.Marshal(answer); err != nil {
			return page{}, err
		}
	}
	var list map[string]json.RawMessage
	var out page
	var next struct{ Next string }
	if err := errors.Join(json.Unmarshal(body, &list), json.Unmarshal(list[member], &out.rows), json.Unmarshal(list["links"], &next)); err != nil {
		return page{}, unavailable(&facts.UpstreamError{Err: errors.New("its list has another form")})
	}
	out.next = next.Next
	return out, nil
}

// call simulates at a block that the origin alone has, or here.
func (f *forked) call(number int64) (any, error) {
	body, err := readCall(f.request)
	if err != nil {
		return nil, err
	}
	before, err := f.callsBefore(body.Block, number)
	switch {
	case err != nil:
		return nil, err
	case !before:
		return f.simulate(body)
	}
	status, answer, err := f.checked(f.origin.Post(f.Context(), "contracts/call", body.raw))
	if err != nil {
		return nil, err
	}
	f.status = status
	return json.RawMessage(answer), nil
}

func (f *forked) callsBefore(text string, number int64) (bool, error) {
	if strings.EqualFold(text, "earliest") {
		return number > 0, nil
	}
	if hash, ok := parseHash(text); ok && strings.HasPrefix(text, "0x") {
		if _, here := f.view.BlockByHash(hash); here {
			return false, nil
		}
		return f.originHas(text, number)
	}
	n, err := parseCallBlock(text)
	return text != "" && err == nil && n >= 0 && n < number, nil
}
