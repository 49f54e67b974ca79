package ethapi

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/eth"
	"lockstep/internal/relay/lifecycle"
	"lockstep/mirror"
	"lockstep/rpc"
)

// Methods returns the method table.
func (a *API) Methods() []rpc.Method {
	var (
		address     = rpc.Required(AddressRule())
		number      = rpc.Required(a.blockRule())
		blockHash   = rpc.Required(blockHashRule())
		txHash      = rpc.Required(txHashRule())
		full        = rpc.Required(rpc.Boolean())
		hex         = rpc.Required(HexRule())
		count       = rpc.Required(countRule())
		transaction = rpc.Required(transactionRule())
		logFilter   = rpc.Required(filterRule(a.blockRule(), !a.hiero()))
		anyBlock    = anyBlockRule(a.blockRule())
		callBlock   = blockParamsRule(a.blockRule())
		estimateAt  = a.blockRule().Also(blockParamsRule(a.blockRule()))
		optional    = rpc.Optional // of the block
	)
	if a.hiero() { // the TypeScript relay requires the block, and does not accept null
		optional, count = rpc.Required, hex
	}
	atBlock := optional(anyBlock)
	filters := func(handler rpc.Handler) rpc.Handler { return gate(a.cfg.Filters, handler) }
	// The TypeScript relay refuses a fourth parameter.
	call := []rpc.Param{transaction, optional(callBlock), rpc.Optional(stateOverrideRule())}
	estimate := []rpc.Param{transaction, rpc.Optional(estimateAt), rpc.Optional(stateOverrideRule())}
	if !a.hiero() {
		call, estimate = append(call, rpc.Optional(blockOverridesRule())), append(estimate, rpc.Optional(blockOverridesRule()))
	}
	methods := []rpc.Method{
		// Head and fees.
		row("eth_blockNumber", a.blockNumber),
		row("eth_gasPrice", a.gasPrice),
		heavy(weightLists, row("eth_feeHistory", a.feeHistory, count, number, rpc.Optional(percentilesRule()))),

		// State.
		row("eth_getBalance", a.getBalance, address, atBlock),
		row("eth_getTransactionCount", a.getTransactionCount, address, atBlock),
		row("eth_getCode", a.getCode, address, atBlock),
		row("eth_getStorageAt", a.getStorageAt, address, rpc.Required(wordRule()), atBlock),
		row("eth_call", a.call, call...),
		row("eth_estimateGas", a.estimateGas, estimate...),
		row("eth_createAccessList", a.createAccessList, transaction, rpc.Nullable(anyBlock), rpc.Nullable(stateOverrideRule())),
		row("eth_simulateV1", a.simulateV1, rpc.Required(simulateRule()), rpc.Nullable(anyBlock)),
		row("eth_fillTransaction", a.fillTransaction, transaction),

		// Blocks.
		row("eth_getBlockByNumber", a.getBlock, number, full),
		row("eth_getBlockByHash", a.getBlock, blockHash, full),
		row("eth_getBlockTransactionCountByNumber", a.getBlockTransactionCount, number),
		row("eth_getBlockTransactionCountByHash", a.getBlockTransactionCount, blockHash),
		heavy(weightLists, row("eth_getBlockReceipts", a.getBlockReceipts, rpc.Required(anyBlock))),

		// Transactions.
		row("eth_getTransactionByHash", a.getTransactionByHash, txHash),
		row("eth_getTransactionByBlockNumberAndIndex", a.getTransactionByBlock, number, hex),
		row("eth_getTransactionByBlockHashAndIndex", a.getTransactionByBlock, blockHash, hex),
		row("eth_getTransactionReceipt", a.getTransactionReceipt, txHash),

		// Logs and filters.
		heavy(weightLists, row("eth_getLogs", a.getLogs, logFilter)),
		row("eth_newFilter", filters(a.newFilter), logFilter),
		row("eth_newBlockFilter", filters(a.newBlockFilter)),
		heavy(weightLists, row("eth_getFilterLogs", filters(a.getFilterLogs), hex)),
		heavy(weightLists, row("eth_getFilterChanges", filters(a.getFilterChanges), hex)),
		row("eth_uninstallFilter", filters(a.uninstallFilter), hex),
	}
	return slices.Concat(methods, a.debugMethods(), a.poolMethods(), a.adminMethods(), a.constants(), a.discovery())
}

func row(name string, handler rpc.Handler, params ...rpc.Param) rpc.Method {
	return rpc.Method{Name: name, Params: params, AnyParams: len(params) == 0, Handler: translated(handler)}
}

// Weights of calls that read much, for the permits of heavy reads.
const (
	weightLists = 1 // of logs, receipts, blocks
	weightTrace = 4
)

func heavy(weight int, m rpc.Method) rpc.Method {
	m.Weight = weight
	return m
}

// UnknownMethod is the answer to a name that the method table does not have, or not on this transport. It
// distinguishes namespaces that exist on other chains from misspelt names. served says whether the transport
// serves the namespace of the name.
func UnknownMethod(name string, t rpc.Transport, served bool) *eth.Error {
	namespace := rpc.Namespace(name)
	switch {
	case namespace == "engine",
		served && t == rpc.TransportWebSocket && (name == "eth_subscribe" || name == "eth_unsubscribe"):
		return eth.ErrUnsupportedMethod
	case served && t == rpc.TransportHTTP && (namespace == "trace" || namespace == "debug"):
		return eth.ErrNotYetImplemented
	}
	return eth.ErrMethodNotFound(name)
}

// constant is a method whose answer never changes.
func constant(name string, result json.RawMessage, params ...rpc.Param) rpc.Method {
	return rpc.Method{
		Name: name, Params: params, AnyParams: len(params) == 0, Inline: true,
		Handler: func(context.Context, *rpc.Params) (any, error) { return result, nil },
	}
}

// unsupported is a method that Ethereum has and Hedera cannot have.
func unsupported(name string) rpc.Method {
	return rpc.Method{
		Name: name, AnyParams: true, Inline: true,
		Handler: func(context.Context, *rpc.Params) (any, error) { return nil, eth.ErrUnsupportedMethod },
	}
}

// unsupportedMethods are refused by name, so that a client can tell them from misspelt names.
func unsupportedMethods() []string {
	return []string{
		"eth_blobBaseFee", "eth_coinbase", "eth_getProof", "eth_getWork",
		"eth_newPendingTransactionFilter", "eth_protocolVersion", "eth_sendTransaction", "eth_sign",
		"eth_signTransaction", "eth_submitHashrate", "net_peerCount",
	}
}

func (a *API) constants() []rpc.Method {
	blockHash, blockNumber, hex := rpc.Optional(blockHashRule()), rpc.Optional(a.blockRule()), rpc.Optional(HexRule())
	methods := []rpc.Method{
		constant("eth_accounts", json.RawMessage("[]")),
		constant("eth_chainId", quoted("0x"+strconv.FormatUint(a.deps.ChainID, 16))),
		constant("eth_hashrate", quoted("0x0")),
		constant("eth_maxPriorityFeePerGas", quoted("0x0")),
		constant("eth_mining", json.RawMessage("false")),
		constant("eth_submitWork", json.RawMessage("false")),
		constant("eth_syncing", json.RawMessage("false")),
		constant("eth_getUncleByBlockHashAndIndex", json.RawMessage("null"), blockHash, hex),
		constant("eth_getUncleByBlockNumberAndIndex", json.RawMessage("null"), blockNumber, hex),
		constant("eth_getUncleCountByBlockHash", quoted("0x0"), blockHash),
		constant("eth_getUncleCountByBlockNumber", quoted("0x0"), blockNumber),
		constant("net_listening", json.RawMessage("true")),
		constant("net_version", quoted(strconv.FormatUint(a.deps.ChainID, 10))),
		constant("web3_clientVersion", quoted(a.clientVersion())),
		{Name: "web3_sha3", Params: []rpc.Param{rpc.Required(HexRule())}, Inline: true, Handler: sha3},
	}
	for _, name := range unsupportedMethods() {
		methods = append(methods, unsupported(name))
	}
	return methods
}

func (a *API) clientVersion() string {
	name, version := a.cfg.ClientName, a.deps.Version
	if a.hiero() && !numbered.MatchString(version) {
		version = "0.0.0-" + version // the TypeScript relay always has three numbers
	}
	if name == "" {
		name = "relay"
		if !a.hiero() {
			name = "lockstep"
		}
	}
	return name + "/" + version
}

// numbered is a version that begins with three numbers.
var numbered = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-|$)`)

func sha3(_ context.Context, p *rpc.Params) (any, error) {
	if len(p.Text(0))%2 != 0 {
		return nil, eth.ErrInvalidParam(0, "%s, value: %s", HexBytesRule().Phrase, p.Text(0))
	}
	return crypto.Keccak256Hash(p.Bytes(0)), nil
}

// quoted is a JSON string.
func quoted(text string) json.RawMessage {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always marshals
	}
	return raw
}

// adminMethods are the rows for the operator of the relay.
func (a *API) adminMethods() []rpc.Method {
	admin := func(offered bool, handler rpc.Handler) rpc.Handler { return gate(offered && !a.deps.NoAdmin, handler) }
	return []rpc.Method{
		row("admin_config", admin(a.deps.Settings != nil, a.showSettings)),
		row("admin_getTransactionTraceByHash", admin(a.deps.Trace.Enabled(), a.getTransactionTrace), rpc.Required(txHashRule())),
	}
}

// showSettings is admin_config: the settings of the relay and of its connections to the network.
func (a *API) showSettings(ctx context.Context, _ *rpc.Params) (any, error) {
	return a.deps.Settings(ctx), nil
}

// getTransactionTrace is admin_getTransactionTraceByHash: what happened to a
// transaction, or null.
func (a *API) getTransactionTrace(ctx context.Context, p *rpc.Params) (any, error) {
	record, ok := a.deps.Trace.Get(ctx, hashOf(p.At(0)))
	if !ok {
		return nil, nil
	}
	return record, nil
}

// seen notes that the mirror node shows a transaction.
func (a *API) seen(hash common.Hash) {
	a.deps.Trace.Validated(hash)
}

// lifecycle returns the record of a transaction, or the zero value.
func (a *API) lifecycle(ctx context.Context, hash common.Hash) lifecycle.Record {
	record, _ := a.deps.Trace.Get(ctx, hash)
	return record
}

// whyNoReceipt is the error for a transaction that the mirror node does not know and that is not simply on its
// way, or nil. A spent nonce proves nothing: this transaction may have spent it on another way.
func (a *API) whyNoReceipt(ctx context.Context, hash common.Hash) error {
	record := a.lifecycle(ctx, hash)
	known := eth.NoReceipt{Hash: hash, Status: record.HederaStatus, Detail: record.Error, TransactionID: record.TransactionID}
	switch {
	case record.Status == lifecycle.StatusRejected && !record.NonceSpent:
		return eth.ErrNeverExecuted(known)
	case record.Status == lifecycle.StatusTimedOut:
		return eth.ErrNotKnownYet(known)
	default:
		return nil
	}
}

// refusal is the error for a transaction that was refused, as the mirror node knows. The mirror node's text comes
// first; the record adds what that leaves out.
func (a *API) refusal(ctx context.Context, hash common.Hash, result *mirror.ContractResult) error {
	record := a.lifecycle(ctx, hash)
	return eth.ErrNeverExecuted(eth.NoReceipt{
		Hash: hash, Status: cmp.Or(result.Result, record.HederaStatus), Detail: cmp.Or(result.ErrorMessage, record.Error),
		TransactionID: record.TransactionID,
	})
}

// Tier returns the tier of a method's rate limit, as the TypeScript relay has it; 0 is the default
// tier. Simulations are in the first one, as docs/CONFIG.md says of it.
func Tier(method string) int {
	switch method {
	case "eth_call", "eth_hashrate", "eth_maxPriorityFeePerGas", "eth_mining", "eth_sendRawTransaction", "eth_sendRawTransactionSync",
		"eth_sendTransaction", "eth_sign", "eth_signTransaction", "eth_submitHashrate", "eth_submitWork",
		"eth_syncing", "debug_traceCall", "debug_traceTransaction", "debug_traceBlockByNumber", "debug_traceBlockByHash",
		"eth_simulateV1", "eth_createAccessList", "eth_estimateGas":
		return 1
	case "admin_config", "web3_clientVersion", "web3_sha3", "net_listening", "net_version", "net_peerCount":
		return 3
	case "eth_accounts", "eth_blobBaseFee", "eth_blockNumber", "eth_chainId", "eth_coinbase",
		"eth_feeHistory", "eth_gasPrice", "eth_getBalance",
		"eth_getBlockByHash", "eth_getBlockByNumber", "eth_getBlockReceipts",
		"eth_getBlockTransactionCountByHash", "eth_getBlockTransactionCountByNumber", "eth_getCode",
		"eth_getFilterChanges", "eth_getFilterLogs", "eth_getLogs", "eth_getProof", "eth_getStorageAt",
		"eth_getTransactionByBlockHashAndIndex", "eth_getTransactionByBlockNumberAndIndex",
		"eth_getTransactionByHash", "eth_getTransactionCount", "eth_getTransactionReceipt",
		"eth_getUncleByBlockHashAndIndex", "eth_getUncleByBlockNumberAndIndex",
		"eth_getUncleCountByBlockHash", "eth_getUncleCountByBlockNumber", "eth_getWork",
		"eth_newBlockFilter", "eth_newFilter", "eth_newPendingTransactionFilter", "eth_protocolVersion",
		"eth_uninstallFilter":
		return 2
	}
	return 0
}

//go:embed openrpc.json
var openRPC string

//go:embed openrpc_manager.json
var openRPCManager []byte

// OpenRPC returns the OpenRPC document that describes the methods in a profile, for a version of this relay. It
// describes all of them, even those that the settings switch off. Those that a transaction manager answers (relay_*) are
// there if there is one.
func OpenRPC(version string, profile rpc.Profile, manager bool) (json.RawMessage, error) {
	block, party := "false", "Address"
	if profile == rpc.ProfileHiero { // it requires the block, and has checksums in the pool
		block, party = "true", "AnyAddress"
	}
	var of struct{ Methods, Errors, Schemas json.RawMessage }
	if err := json.Unmarshal(openRPCManager, &of); err != nil {
		return nil, err
	}
	if !manager {
		of.Methods, of.Errors, of.Schemas = nil, nil, nil
	}
	text := strings.NewReplacer(
		`"@version@"`, string(quoted(version)), `"@block@"`, block, "@party@", party,
		`"@managerMethods@",`, members(of.Methods), `"@managerErrors@": {},`, members(of.Errors), `"@managerSchemas@": {},`, members(of.Schemas),
	).Replace(openRPC)
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(text)); err != nil {
		return nil, err
	}
	return compact.Bytes(), nil
}

// members is what is in a list or an object, to be followed by others; "" for nil.
func members(list json.RawMessage) string {
	if list == nil {
		return ""
	}
	return string(list[1:len(list)-1]) + ","
}

// ServeOpenRPC serves the document over HTTP, as rpc.discover returns it.
func (a *API) ServeOpenRPC(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(a.document)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(a.document) // a client that went away needs no answer
	}
}

// discovery are the methods that list the others.
func (a *API) discovery() []rpc.Method {
	return []rpc.Method{
		constant("rpc.discover", a.document),
		{Name: "rpc_modules", AnyParams: true, Inline: true, Handler: a.modules},
	}
}

// modules is rpc_modules: the namespaces of the transport on which it is called.
func (a *API) modules(ctx context.Context, _ *rpc.Params) (any, error) {
	served := a.deps.HTTPAPIs
	if r, ok := rpc.FromContext(ctx); ok && r.Transport == rpc.TransportWebSocket {
		served = a.deps.WebSocketAPIs
	}
	const version = "1.0"
	modules := map[string]string{"rpc": version}
	for _, name := range served {
		switch name {
		case "eth", "net", "web3":
			modules[name] = version
		case "debug":
			if a.cfg.Debug.Enabled {
				modules[name] = version
			}
		case "txpool":
			if a.offersPool() {
				modules[name] = version
			}
		case "relay":
			if a.deps.Manager {
				modules[name] = version
			}
		case "admin":
			if !a.deps.NoAdmin {
				modules[name] = version
			}
		}
	}
	return modules, nil
}
