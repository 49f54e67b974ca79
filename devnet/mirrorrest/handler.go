package mirrorrest

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/facts"
)

// base is where the mirror node's API lives; links in answers start with it.
const base = "/api/v1/"

// maxBody bounds a request body: 128 KiB of call data is twice that in
// hex, and state overrides may carry some contracts' code.
const maxBody = 1 << 20

// Config is what the API needs.
type Config struct {
	// View returns the ledger as this mirror node knows it by now. It is called
	// once for each request; a mirror node that lags behind the network is one
	// whose View does. Required.
	View func() *ledger.View

	// Log receives what clients are not told about a failure. Required.
	Log *slog.Logger

	// Changed returns a channel that receives after there were new blocks, and a
	// function that ends it. Without it, requests for new blocks do not wait.
	Changed func() (changed <-chan struct{}, cancel func())

	// Closing, when it is closed, ends waits for new blocks: the server stops.
	Closing <-chan struct{}

	// Fault, where set, is asked about every request and may spoil its answer.
	Fault func(*http.Request) Fault

	// Origin, where set, answers about what was before the network began: it is a fork.
	Origin Origin
}

// New returns the HTTP handler of the whole API. Every answer is computed from the
// View of its moment; nothing is kept between requests.
func New(cfg Config) http.Handler {
	s := &server{Config: cfg, routes: table()}
	s.routes.add(http.MethodGet, "devnet/blocks", takes(single, params{"from": isExactCount, "wait": isExactCount}, s.followBlocks))
	return s
}

type server struct {
	Config
	routes routes
}

// A request is what a handler works on.
type request struct {
	*http.Request
	view   *ledger.View
	args   []string // the variable parts of the path
	status int      // of the answer; handlers change it for a success other than 200
	header http.Header
}

// self is the request's path as links repeat it.
func (r *request) self() string { return strings.TrimSuffix(r.URL.EscapedPath(), "/") }

// plain is an answer that is text rather than JSON.
type plain string

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer s.recover(w, r)
	allowEveryOrigin(w.Header())
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if s.Fault != nil {
		if w = s.spoil(w, r); w == nil {
			return
		}
	}
	handle, args := s.routes.find(r.Method, r.URL.EscapedPath())
	if handle == nil {
		s.write(w, http.StatusNotFound, notFound().body())
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	s.sayGeneration(w.Header()) // before the view: what comes from a history that is gone must say so
	req := &request{Request: r, view: s.View(), args: args, status: http.StatusOK, header: w.Header()}
	answer, err := s.answer(req, handle)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if out, ok := answer.(object); ok {
		if l, paged := out["links"].(links); paged && l.Next != nil {
			w.Header().Set("Link", "<"+*l.Next+`>; rel="next"`)
		}
	}
	s.write(w, req.status, answer)
}

// answer has the origin answer where it knows more.
func (s *server) answer(r *request, handle handler) (any, error) {
	if s.Origin == nil {
		return handle(r)
	}
	f := &forked{request: r, origin: s.Origin, handle: handle}
	return f.answer()
}

// A development chain's mirror is read by pages from anywhere.
func allowEveryOrigin(h http.Header) {
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS")
	h.Set("Access-Control-Allow-Headers", "*")
}

// fail answers with a problem. The cause of an unforeseen one stays in the log; that
// the client went away is none.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return
	}
	var p *problem
	if !errors.As(err, &p) {
		s.Log.ErrorContext(r.Context(), "mirror request failed", "path", r.URL.Path, "error", err)
		p = detailed(http.StatusInternalServerError, "")
	}
	s.write(w, p.status, p.body())
}

// recover keeps a fault in one request from ending the process.
func (s *server) recover(w http.ResponseWriter, r *http.Request) {
	if fault := recover(); fault != nil {
		if failed, ok := fault.(*facts.UpstreamError); ok {
			s.write(w, http.StatusServiceUnavailable, unavailable(failed).body())
			return
		}
		if fault == http.ErrAbortHandler { //nolint:errorlint // a recovered value, compared as net/http does
			panic(fault)
		}
		s.Log.ErrorContext(r.Context(), "mirror request panicked", "path", r.URL.Path, "panic", fault, "stack", string(debug.Stack()))
		s.write(w, http.StatusInternalServerError, detailed(http.StatusInternalServerError, "").body())
	}
}

func (s *server) write(w http.ResponseWriter, status int, answer any) {
	var body bytes.Buffer
	switch a := answer.(type) {
	case plain:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		body.WriteString(string(a))
	default:
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		encoder := json.NewEncoder(&body)
		encoder.SetEscapeHTML(false) // links keep their ampersands
		if err := encoder.Encode(answer); err != nil {
			s.Log.Error("mirror answer cannot be encoded", "error", err)
			status = http.StatusInternalServerError
		}
	}
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // the client is gone; nothing to tell it
}

// A problem is an answer other than success: the HTTP status and the messages
// of the body {"_status":{"messages":[…]}} that every endpoint shares.
type problem struct {
	status   int
	messages []message
}

// A message is one entry of a problem. Detail and Data are pointers because one
// family of endpoints always sends them, if only empty, and the other leaves
// them out.
type message struct {
	Message string  `json:"message"`
	Detail  *string `json:"detail,omitempty"`
	Data    *string `json:"data,omitempty"`
}

// Error joins the messages for a log line.
func (p *problem) Error() string {
	texts := make([]string, len(p.messages))
	for i, m := range p.messages {
		texts[i] = m.Message
	}
	return strings.Join(texts, ", ")
}

func (p *problem) body() object {
	return object{"_status": object{"messages": p.messages}}
}

// badRequest is a 400 whose entries carry nothing but their text.
func badRequest(texts ...string) *problem {
	p := &problem{status: http.StatusBadRequest}
	for _, t := range texts {
		p.messages = append(p.messages, message{Message: t})
	}
	return p
}

// invalidParameter is the 400 for a value that does not parse.
func invalidParameter(name string) *problem { return badRequest("Invalid parameter: " + name) }

// notFound is the 404 of the endpoints that read records.
func notFound() *problem {
	return &problem{status: http.StatusNotFound, messages: []message{{Message: "Not found"}}}
}

// detailed is an error of the endpoints that execute code or read the network's
// own tables: the reason phrase as the message and the cause as the detail.
func detailed(status int, details ...string) *problem {
	p := &problem{status: status}
	for _, d := range details {
		p.messages = append(p.messages, fullMessage(http.StatusText(status), d, ""))
	}
	return p
}

// fullMessage is an entry with all three keys present.
func fullMessage(text, detail, data string) message {
	return message{Message: text, Detail: &detail, Data: &data}
}

// A handler answers one kind of request. Its result is written as JSON; an error
// that is a *problem becomes its answer, any other one a 500.
type handler func(*request) (any, error)

// takes is a handler of requests whose query string is in order.
func takes(l listing, accepted params, answer func(*request, *query) (any, error)) handler {
	return func(r *request) (any, error) {
		q, err := parseQuery(r.URL.RawQuery, accepted, l)
		if err != nil {
			return nil, err
		}
		return answer(r, q)
	}
}

// of is what answers about the one that the path names.
func of[T any](named func(*request) (T, error), answer func(*request, *query, T) (any, error)) func(*request, *query) (any, error) {
	return func(r *request, q *query) (any, error) {
		it, err := named(r)
		if err != nil {
			return nil, err
		}
		return answer(r, q, it)
	}
}

// A route is a method and a path under the base, already split. A segment in
// braces matches anything and becomes the next entry of request.args.
type route struct {
	method   string
	segments []string
	handle   handler
}

// Routes are tried in order, so that a fixed path stands before one with a
// variable in the same place. (http.ServeMux refuses this set of paths: it finds
// contracts/{id}/results/{timestamp} and contracts/results/{hash}/actions in
// conflict.)
type routes []route

func (rs *routes) add(method, path string, h handler) {
	*rs = append(*rs, route{method: method, segments: strings.Split(path, "/"), handle: h})
}

// find returns the handler for an escaped path and the values of its variables,
// unescaped: a hash in base 64 may have a slash in it.
func (rs routes) find(method, path string) (handler, []string) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	segments := strings.Split(strings.Trim(path, "/"), "/")
	for _, r := range rs {
		if r.method != method || len(r.segments) != len(segments) {
			continue
		}
		if args, ok := r.match(segments); ok {
			return r.handle, args
		}
	}
	return nil, nil
}

func (r route) match(segments []string) (args []string, ok bool) {
	for i, want := range r.segments {
		switch {
		case strings.HasPrefix(want, "{"):
			arg, err := url.PathUnescape(segments[i])
			if err != nil {
				return nil, false
			}
			args = append(args, arg)
		case want != segments[i]:
			return nil, false
		}
	}
	return args, true
}

// table is every path that is served. A fixed path comes before one with a
// variable in its place.
func table() routes {
	var rs routes
	get := func(path string, h handler) { rs.add(http.MethodGet, base[1:]+path, h) }

	get("blocks", takes(descending, params{"block.number": isBlockNumber, "timestamp": isTime}, listBlocks))
	get("blocks/{hashOrNumber}", takes(single, nil, getBlock))

	get("contracts/results", takes(descending, resultParams, listResults))
	get("contracts/results/logs", takes(descending, logParams, listLogs))
	get("contracts/results/{transactionIdOrHash}", takes(single, params{"hbar": isFlag, "nonce": isExactCount}, getResult))
	get("contracts/results/{transactionIdOrHash}/actions", takes(ascending, params{"index": func(op operator, v string) bool { return op != ne && isCount(op, v) }}, listActions))
	get("contracts/results/{transactionIdOrHash}/opcodes", takes(single, params{"memory": isFlag, "stack": isFlag, "storage": isFlag}, listOpcodes))
	get("contracts", takes(descending, params{"contract.id": isParty}, listContracts))
	get("contracts/{contractIdOrAddress}", takes(single, params{"timestamp": isTime}, of((*request).contractArg, getContract)))
	get("contracts/{contractIdOrAddress}/results", takes(descending, resultParams, listContractResults))
	get("contracts/{contractIdOrAddress}/results/logs", takes(descending, contractLogParams, listContractLogs))
	get("contracts/{contractIdOrAddress}/results/{timestamp}", takes(single, params{"hbar": isFlag}, getResultAt))
	get("contracts/{contractIdOrAddress}/state", takes(ascending, params{"slot": isSlot, "timestamp": isTime}, listState))
	rs.add(http.MethodPost, base[1:]+"contracts/call", callContract)

	get("accounts", takes(ascending, params{
		"account.balance":   isCount,
		"account.id":        isParty,
		"account.publickey": isPublicKey,
		"balance":           isFlag,
	}, listAccounts))
	get("accounts/{idOrAliasOrEvmAddress}", takes(descending, params{
		"timestamp":       isTime,
		"transactions":    isFlag,
		"transactiontype": isTransactionType,
	}, getAccount))
	get("balances", takes(descending, params{
		"account.balance":   isCount,
		"account.id":        isParty,
		"account.publickey": isPublicKey,
		"timestamp":         isTime,
	}, listBalances))
	get("transactions", takes(descending, params{
		"account.id":      isEntity,
		"result":          oneOf("success", "fail"),
		"timestamp":       isTime,
		"transactiontype": isTransactionType,
		"type":            oneOf("credit", "debit"),
	}, listTransactions))
	get("transactions/{transactionIdOrHash}", takes(single, params{"nonce": isExactCount, "scheduled": isFlag}, getTransaction))

	get("network/exchangerate", takes(single, params{"timestamp": isTime}, getExchangeRate))
	get("network/fees", takes(single, params{"timestamp": isTime, "order": oneOf("asc", "desc")}, getFees))
	get("network/nodes", takes(ascending, params{
		"file.id": func(op operator, v string) bool { return op == eq && isEntity(op, v) },
		"node.id": isCount,
	}, listNodes))
	get("network/registered-nodes", emptyList("registered_nodes", "registerednode.id", "type"))
	get("network/stake", takes(single, nil, getStake))
	get("network/supply", takes(single, params{"timestamp": isTime, "q": oneOf("totalcoins", "circulating")}, getSupply))

	const account = "accounts/{idOrAliasOrEvmAddress}/"
	get(account+"airdrops/outstanding", takes(ascending, params{"receiver.id": isParty, "serialnumber": isCount, "token.id": isParty}, listOutstandingAirdrops))
	get(account+"airdrops/pending", takes(ascending, params{"sender.id": isParty, "serialnumber": isCount, "token.id": isParty}, listPendingAirdrops))
	get(account+"allowances/crypto", takes(descending, params{"spender.id": isParty}, of((*request).accountArg, listCryptoAllowances)))
	get(account+"allowances/nfts", takes(ascending, params{"account.id": isParty, "owner": isFlag, "token.id": isParty}, of((*request).accountArg, listNFTAllowances)))
	get(account+"allowances/tokens", takes(descending, params{"spender.id": isParty, "token.id": isParty}, of((*request).accountArg, listTokenAllowances)))
	get(account+"hooks", emptyListOfAccount("hooks", "hook.id"))
	get(account+"nfts", takes(descending, params{"serialnumber": isCount, "spender.id": isParty, "token.id": isParty}, of((*request).accountArg, listAccountNFTs)))
	get(account+"rewards", emptyListOfAccount("rewards", "timestamp"))
	get(account+"tokens", takes(ascending, params{"token.id": isParty}, of((*request).accountArg, listRelationships)))
	get("tokens", takes(ascending, params{
		"account.id": isParty, "name": isText, "publickey": isPublicKey, "token.id": isParty,
		"type": oneOf("all", fungible, nonFungible),
	}, listTokens))
	get("tokens/{tokenId}", takes(single, params{"timestamp": isTime}, getToken))
	get("tokens/{tokenId}/balances", takes(descending, params{
		"account.balance": isCount, "account.id": isParty, "account.publickey": isPublicKey, "timestamp": isTime,
	}, listHolders))
	get("tokens/{tokenId}/nfts", takes(descending, params{"account.id": isParty, "serialnumber": isCount}, of((*request).tokenNumber, listTokenNFTs)))
	get("tokens/{tokenId}/nfts/{serialNumber}", getNFT)
	get("tokens/{tokenId}/nfts/{serialNumber}/transactions", takes(descending, params{"timestamp": isTime}, of((*request).nftArg, listNFTTransactions)))

	get("schedules", takes(ascending, params{"account.id": isEntity, "schedule.id": isEntity}, listSchedules))
	get("schedules/{scheduleId}", getSchedule)
	get("topics/messages/{timestamp}", getMessageAt)
	get("topics/{topicId}", getTopic)
	get("topics/{topicId}/messages", takes(ascending, params{
		"encoding": oneOf("base64", "utf-8"), "sequencenumber": isCount, "timestamp": isTime,
	}, of((*request).topicArg, listMessages)))
	get("topics/{topicId}/messages/{sequenceNumber}", getMessage)

	rs.add(http.MethodGet, "devnet/consensus", takes(single, params{"since": isExactCount, "limit": isExactCount}, listConsensus))
	rs.add(http.MethodGet, "health/liveness", health)
	rs.add(http.MethodGet, "health/readiness", health)
	return rs
}

// health answers the probes: an API that answers is alive, and ready, since there
// is a block from the start.
func health(*request) (any, error) { return object{"status": "OK"}, nil }

// emptyList answers for what the devnet does not have, such as hooks and rewards, as a network where nobody made any,
// so that explorers and probing clients work. Its parameters are not checked beyond their names being of this API.
func emptyList(name string, accepted ...string) handler {
	allowed := params{}
	for _, parameter := range accepted {
		allowed[parameter] = func(operator, string) bool { return true }
	}
	return takes(ascending, allowed, func(*request, *query) (any, error) {
		return object{name: []any{}, "links": links{}}, nil
	})
}

// emptyListOfAccount is an empty list below an account, which must exist.
func emptyListOfAccount(name string, accepted ...string) handler {
	list := emptyList(name, accepted...)
	return func(r *request) (any, error) {
		if _, err := r.accountArg(); err != nil {
			return nil, err
		}
		return list(r)
	}
}

// Fault is how to spoil the answer to a request. The zero value leaves it alone.
// Delay and Pause go together with every other field; of the others the first that
// is set counts, in the order in which they stand here.
type Fault struct {
	Delay time.Duration // before anything happens
	Pause time.Duration // in the middle of the answer's body

	Hang       bool          // no answer until the client goes away or the server stops
	Drop       bool          // the connection breaks before the first byte
	Status     int           // answered in place of the real answer, with a body that fits: 404, 429, 500, …
	RetryAfter time.Duration // beside Status: how long a client is told to wait, in whole seconds
	Garbage    bool          // a success whose body is no JSON
	Cut        bool          // the connection breaks in the middle of the body
}

// garbage is what an overloaded proxy may send with a success.
const garbage = "<html><body>upstream request timeout</body></html>"

// spoil applies what comes before the answer. It returns the writer to answer with,
// or nil if nothing is left to answer.
func (s *server) spoil(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	fault := s.Fault(r)
	if fault == (Fault{}) {
		return w
	}
	if fault.Delay > 0 && !s.pause(r, fault.Delay) {
		panic(http.ErrAbortHandler)
	}
	switch {
	case fault.Hang:
		s.pause(r, 0)
		panic(http.ErrAbortHandler)
	case fault.Drop:
		panic(http.ErrAbortHandler)
	}
	spoiled := &spoiledWriter{ResponseWriter: w, fault: fault, pause: func() { s.pause(r, fault.Pause) }}
	switch {
	case fault.Status != 0:
		if fault.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.FormatInt(int64((fault.RetryAfter+time.Second-1)/time.Second), 10))
		}
		s.write(spoiled, fault.Status, statusProblem(fault.Status).body())
		return nil
	case fault.Garbage:
		s.write(spoiled, http.StatusOK, plain(garbage))
		return nil
	}
	return spoiled
}

// statusProblem is what a mirror node says beside a status.
func statusProblem(status int) *problem {
	if status == http.StatusNotFound {
		return notFound()
	}
	return &problem{status: status, messages: []message{{Message: http.StatusText(status)}}}
}

// pause waits, without an end if d is 0. It returns false when the client went away
// or the server stops.
func (s *server) pause(r *http.Request, d time.Duration) bool {
	var over <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
		return true
	case <-s.Closing:
	case <-r.Context().Done():
	}
	return false
}

// spoiledWriter spoils the body, which comes in one piece.
type spoiledWriter struct {
	http.ResponseWriter
	fault Fault
	pause func()
}

// Write implements io.Writer. A body that ends too soon was announced whole.
func (w *spoiledWriter) Write(body []byte) (int, error) {
	if !w.fault.Cut && w.fault.Pause == 0 {
		return w.ResponseWriter.Write(body)
	}
	half := len(body) / 2
	if _, err := w.ResponseWriter.Write(body[:half]); err != nil {
		return 0, err
	}
	if err := http.NewResponseController(w.ResponseWriter).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return half, err
	}
	if w.fault.Pause > 0 {
		w.pause()
	}
	if w.fault.Cut {
		panic(http.ErrAbortHandler)
	}
	n, err := w.ResponseWriter.Write(body[half:])
	return half + n, err
}
