package ethapi

import (
	"context"
	"encoding/json"
	"regexp"
	"strconv"

	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/internal/eth"
	"lockstep/rpc"
)

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
