package near

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"lockstep/internal/near"
)

// maxBody bounds a request: a transaction in base64, with room.
const maxBody = 4 << 20

// lateBlocks is how many blocks a reply is late.
const lateBlocks = 5

// rpcError is an error in nearcore's form.
type rpcError struct {
	Name    string `json:"name"`
	Cause   cause  `json:"cause"`
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

type cause struct {
	Name string `json:"name"`
	Info object `json:"info"`
}

func (e *rpcError) Error() string { return e.Cause.Name }

func handlerError(name string, info object) *rpcError {
	return &rpcError{Name: "HANDLER_ERROR", Cause: cause{name, info}, Code: -32000, Message: "Server error", Data: name}
}

func parseError(text string) *rpcError {
	return &rpcError{Name: "REQUEST_VALIDATION_ERROR", Cause: cause{"PARSE_ERROR", object{"error_message": text}}, Code: -32700, Message: "Parse error", Data: text}
}

func unknownBlock(reference any) *rpcError {
	return handlerError("UNKNOWN_BLOCK", object{"block_reference": reference})
}

// ServeHTTP answers JSON-RPC.
func (c *Chain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = json.Unmarshal(body, &request)
	}
	var result any
	var failure *rpcError
	if err != nil {
		failure = parseError(err.Error())
	} else {
		kind := request.Method
		if strings.HasPrefix(kind, "broadcast_tx") {
			kind = "send_tx"
		}
		if c.faults.take(kind, LostRequest) {
			panic(http.ErrAbortHandler)
		}
		lost, late := c.faults.take(kind, LostReply), c.faults.take(kind, Late)
		result, err = c.call(r.Context(), request.Method, request.Params)
		if err != nil && !errors.As(err, &failure) {
			failure = &rpcError{Name: "INTERNAL_ERROR", Cause: cause{"INTERNAL_ERROR", object{"error_message": err.Error()}}, Code: -32000, Message: "Server error"}
		}
		if late {
			c.sleep(r.Context(), lateBlocks)
		}
		if lost {
			panic(http.ErrAbortHandler)
		}
	}
	if len(request.ID) == 0 {
		request.ID = json.RawMessage("null")
	}
	answer := object{"jsonrpc": "2.0", "id": request.ID}
	status := http.StatusOK
	if failure != nil {
		answer["error"] = failure
		switch {
		case failure.Cause.Name == "TIMEOUT_ERROR":
			status = http.StatusRequestTimeout
		case failure.Name == "REQUEST_VALIDATION_ERROR":
			status = http.StatusBadRequest
		case failure.Name == "INTERNAL_ERROR":
			status = http.StatusInternalServerError
		}
	} else {
		answer["result"] = result
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the client has gone
}

// sleep waits for some blocks.
func (c *Chain) sleep(ctx context.Context, blocks int) {
	for range blocks {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (c *Chain) call(ctx context.Context, method string, params json.RawMessage) (any, error) {
	switch method {
	case "send_tx", "broadcast_tx_async", "broadcast_tx_commit":
		return c.callSend(ctx, method, params)
	case "tx", "EXPERIMENTAL_tx_status":
		return c.callStatus(ctx, method, params)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch method {
	case "query":
		return c.query(params)
	case "block":
		b, err := c.blockOf(params)
		if err != nil {
			return nil, err
		}
		return c.viewBlock(b), nil
	case "chunk":
		return c.chunk(params)
	case "gas_price":
		return object{"gas_price": decimal(gasPrice)}, nil
	case "status":
		return c.status(), nil
	case "EXPERIMENTAL_protocol_config":
		return object{
			"protocol_version": protocolVersion, "chain_id": chainID, "genesis_height": c.first, "transaction_validity_period": c.config.Validity,
			"min_gas_price": decimal(gasPrice), "max_gas_price": decimal(gasPrice),
			"runtime_config": object{"storage_amount_per_byte": "10000000000000000000"},
		}, nil
	default:
		return nil, &rpcError{
			Name: "REQUEST_VALIDATION_ERROR", Cause: cause{"METHOD_NOT_FOUND", object{"method_name": method}}, Code: -32601, Message: "Method not found", Data: method,
		}
	}
}

// chainID is the name that the node gives its chain.
const chainID = "localnet"

func (c *Chain) status() object {
	head := c.head()
	return object{
		"chain_id": chainID, "genesis_hash": c.blocks[0].hash.String(), "protocol_version": protocolVersion, "latest_protocol_version": protocolVersion,
		"sync_info": object{
			"latest_block_hash": head.hash.String(), "latest_block_height": head.height, "latest_block_time": head.time.UTC().Format(time.RFC3339Nano), "syncing": false,
		},
		"validators": []object{}, "version": object{"version": "model", "build": "lockstep"},
	}
}

// reference is a block by its height, its hash, or how final it is.
type reference struct {
	Block    json.RawMessage `json:"block_id"`
	Finality string          `json:"finality"`
}

func (c *Chain) blockOf(params json.RawMessage) (*block, error) {
	var ref reference
	if len(params) > 0 && params[0] == '[' {
		var list []json.RawMessage
		if json.Unmarshal(params, &list) == nil && len(list) > 0 {
			ref.Block = list[0]
		}
	} else if err := json.Unmarshal(params, &ref); err != nil {
		return nil, parseError(err.Error())
	}
	return c.find(ref)
}

func (c *Chain) find(ref reference) (*block, error) {
	var height uint64
	var text string
	switch {
	case ref.Finality == "final":
		return c.final(), nil
	case ref.Finality == "near-final":
		return c.at(max(c.first, c.head().height-1)), nil
	case ref.Finality == "optimistic":
		return c.head(), nil
	case len(ref.Block) == 0 || string(ref.Block) == "null":
		return nil, parseError("either block_id or finality is needed")
	case json.Unmarshal(ref.Block, &height) == nil:
	case json.Unmarshal(ref.Block, &text) == nil:
		hash, err := near.ParseHash(text)
		if err != nil {
			return nil, parseError(err.Error())
		}
		height = c.heights[hash]
	default:
		return nil, parseError("block_id is a height or a hash")
	}
	if b := c.at(height); b != nil {
		return b, nil
	}
	return nil, unknownBlock(ref.Block)
}

func (c *Chain) chunk(params json.RawMessage) (any, error) {
	named := struct {
		Chunk string `json:"chunk_id"`
	}{}
	if err := decode(params, &named, &named.Chunk); err != nil {
		return nil, err
	}
	hash, err := near.ParseHash(named.Chunk)
	if err != nil {
		return nil, parseError(err.Error())
	}
	b := c.at(c.heights[hash])
	if b == nil {
		return nil, handlerError("UNKNOWN_CHUNK", object{"chunk_hash": named.Chunk})
	}
	return c.viewChunk(b), nil
}

func (c *Chain) query(params json.RawMessage) (any, error) {
	var q struct {
		reference
		Type    string `json:"request_type"`
		Account string `json:"account_id"`
		Key     string `json:"public_key"`
		Method  string `json:"method_name"`
		Args    []byte `json:"args_base64"`
	}
	if err := json.Unmarshal(params, &q); err != nil {
		return nil, parseError(err.Error())
	}
	b, err := c.find(q.reference)
	if err != nil {
		return nil, err
	}
	where := object{"block_hash": b.hash.String(), "block_height": b.height}
	with := func(more object) object {
		maps.Copy(more, where)
		return more
	}
	if b.height+maxHistory < c.head().height {
		return nil, handlerError("GARBAGE_COLLECTED_BLOCK", with(object{}))
	}
	if err := near.CheckAccount(q.Account); err != nil {
		return nil, parseError(err.Error())
	}
	a := c.account(q.Account, b.height)
	if a == nil {
		return nil, handlerError("UNKNOWN_ACCOUNT", with(object{"requested_account_id": q.Account}))
	}
	switch q.Type {
	case "view_account":
		return with(viewAccount(a)), nil
	case "view_access_key":
		key, err := near.ParsePublicKey(q.Key)
		if err != nil {
			return nil, parseError(err.Error())
		}
		found, there := a.keys[key]
		if !there {
			// nearcore answers this one as a result.
			return with(object{"error": fmt.Sprintf("access key %s does not exist while viewing", q.Key), "logs": []string{}}), nil
		}
		return with(object{"nonce": found.Nonce, "permission": viewPermission(found.Permission)}), nil
	case "view_access_key_list":
		list := []object{}
		for key, found := range a.keys {
			list = append(list, object{"public_key": key.String(), "access_key": object{"nonce": found.Nonce, "permission": viewPermission(found.Permission)}})
		}
		return with(object{"keys": list}), nil
	case "view_state":
		return with(object{"values": viewState(a)}), nil
	case "view_code":
		if len(a.code) == 0 {
			return nil, handlerError("NO_CONTRACT_CODE", with(object{"contract_account_id": q.Account}))
		}
		return with(codeView(a)), nil
	case "call_function":
		value, failure := a.clone().counter(q.Method, q.Args, q.Account)
		if failure != nil {
			text, _ := json.Marshal(failure["FunctionCallError"]) // made of texts
			return with(object{"error": "wasm execution failed with error: " + string(text), "logs": []string{}}), nil
		}
		bytes := make([]int, len(value))
		for i, b := range value {
			bytes[i] = int(b)
		}
		return with(object{"result": bytes, "logs": []string{}}), nil
	default:
		return nil, parseError("request_type " + q.Type + " is not in the model")
	}
}

// decode reads parameters by their names, or as a list in their order.
func decode(params json.RawMessage, named any, inOrder ...*string) error {
	var list []string
	if json.Unmarshal(params, &list) == nil && len(list) == len(inOrder) {
		for i, to := range inOrder {
			*to = list[i]
		}
		return nil
	}
	if err := json.Unmarshal(params, named); err != nil {
		return parseError(err.Error())
	}
	return nil
}

func (c *Chain) callSend(ctx context.Context, method string, params json.RawMessage) (any, error) {
	named := struct {
		Signed string `json:"signed_tx_base64"`
		Wait   string `json:"wait_until"`
	}{Wait: "EXECUTED_OPTIMISTIC"}
	if err := decode(params, &named, &named.Signed); err != nil {
		return nil, err
	}
	data, err := base64.StdEncoding.DecodeString(named.Signed)
	if err != nil {
		return nil, parseError(err.Error())
	}
	tx, err := near.DecodeTransaction(data)
	if err != nil {
		return nil, parseError(err.Error())
	}
	hash, _ := tx.Hash() // it was decoded
	refusal := c.send(tx)
	// Who does not wait is told of no refusal.
	if method == "broadcast_tx_async" {
		return hash.String(), nil
	}
	if named.Wait == "NONE" {
		return object{"final_execution_status": "NONE"}, nil
	}
	if refusal != nil {
		failure := handlerError("INVALID_TRANSACTION", object{})
		failure.Data = object{"TxExecutionError": refusal}
		return nil, failure
	}
	return c.await(ctx, hash, named.Wait, false, true)
}

func (c *Chain) callStatus(ctx context.Context, method string, params json.RawMessage) (any, error) {
	named := struct {
		Hash   string `json:"tx_hash"`
		Signer string `json:"sender_account_id"`
		Wait   string `json:"wait_until"`
	}{Wait: "EXECUTED_OPTIMISTIC"}
	if err := decode(params, &named, &named.Hash, &named.Signer); err != nil {
		return nil, err
	}
	hash, err := near.ParseHash(named.Hash)
	if err != nil {
		return nil, parseError(err.Error())
	}
	return c.await(ctx, hash, named.Wait, method == "EXPERIMENTAL_tx_status", false)
}

// await waits until a transaction is so far. One that was just sent is awaited; of another
// one that is in no block nothing is known.
func (c *Chain) await(ctx context.Context, hash near.Hash, level string, receipts, sent bool) (any, error) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		c.mu.Lock()
		r, changed := c.records[hash], c.changed
		if r != nil && c.reached(r, level) {
			defer c.mu.Unlock()
			return c.viewRecord(r, receipts), nil
		}
		c.mu.Unlock()
		if r == nil && !sent {
			return nil, handlerError("UNKNOWN_TRANSACTION", object{"requested_transaction_hash": hash.String()})
		}
		select {
		case <-changed:
		case <-deadline.C:
			return nil, handlerError("TIMEOUT_ERROR", object{})
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Fault is a way in which a node misbehaves.
type Fault int

// The faults.
const (
	LostReply   Fault = iota // the node acts, and the connection breaks
	LostRequest              // the connection breaks before the node acts
	Late                     // the node acts, and its reply comes blocks later
	Congested                // the node refuses what is sent
)

// Faults are what a node will do wrong. The zero value is none.
type Faults struct {
	mu   sync.Mutex
	left map[rule]int
}

type rule struct {
	method string
	fault  Fault
}

// Next makes the next calls of a method meet a fault. send_tx is every way to send.
func (f *Faults) Next(method string, fault Fault, times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == nil {
		f.left = map[rule]int{}
	}
	f.left[rule{method, fault}] += times
}

// take reports whether a call meets a fault.
func (f *Faults) take(method string, fault Fault) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := rule{method, fault}
	if f.left[r] == 0 {
		return false
	}
	f.left[r]--
	return true
}

// Left is how many faults wait for their call.
func (f *Faults) Left() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, times := range f.left {
		n += times
	}
	return n
}
