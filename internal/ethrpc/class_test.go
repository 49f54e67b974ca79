package ethrpc

import (
	"strings"
	"testing"
)

// Answers as they were recorded. Where a row has no code, the text alone decides, whatever the code is.
var recorded = []struct {
	from   string
	text   string
	want   Class
	code   int
	status int
	data   string
}{
	// Executions that failed. A contract's own words decide nothing.
	{from: "geth", text: "execution reverted", want: Reverted},
	{from: "geth", text: "execution reverted: not the owner", want: Reverted, code: 3, data: "0x08c379a0"},
	{from: "a contract", text: "execution reverted: daily limit exceeded, rate limited", want: Reverted},
	{from: "a contract", text: "execution reverted: nonce too low", want: Reverted},
	{from: "a contract", text: "execution reverted: insufficient funds", want: Reverted},
	{from: "anvil", text: "execution reverted: custom error 0x12345678", want: Reverted, code: 3, data: "0x12345678"},
	{from: "hardhat", text: "VM Exception while processing transaction: reverted with reason string 'too many requests'", want: Reverted, code: -32603},
	{from: "hardhat", text: "Error: VM Exception while processing transaction: reverted with an unrecognized custom error (return data: 0x6a12f104)", want: Reverted},
	{from: "ganache", text: "VM Exception while processing transaction: revert only owner", want: Reverted},
	{from: "hardhat", text: "Transaction reverted: function call to a non-contract account", want: Reverted},
	{from: "nethermind", text: "VM execution error.", want: Reverted, code: -32015, data: "Reverted 0x08c379a000000000"},
	{from: "openethereum", text: "VM execution error.", want: Reverted, code: -32015, data: "Reverted"},
	{from: "besu", text: "Execution reverted", want: Reverted, code: -32000, data: "0x"},
	{from: "erigon", text: "execution reverted", want: Reverted, code: 3, data: "0x"},
	{from: "arbitrum", text: "execution reverted: error code", want: Reverted},
	{from: "proxyd", text: "execution reverted", want: Reverted, code: 3, status: 500, data: "0x08c379a00000"},
	{from: "geth", text: "invalid opcode: INVALID", want: Reverted},
	{from: "reth", text: "EVM error: InvalidFEOpcode", want: Reverted},
	{from: "geth", text: "out of gas", want: Reverted},
	{from: "geth", text: "gas required exceeds allowance (50000000)", want: Reverted},
	{from: "relay", text: "execution reverted: CONTRACT_REVERT_EXECUTED", want: Reverted, code: 3},
	{from: "relay", text: "Error occurred during transaction simulation: INVALID_ALIAS_KEY", want: Reverted, code: -32000},
	{from: "relay", text: "Error occurred during transaction simulation: INSUFFICIENT_PAYER_BALANCE", want: Funds, code: -32000},

	// What no EVM has said.
	{from: "geth", text: "execution aborted (timeout = 5s)", want: Broken},
	{from: "geth", text: "gas required exceeds allowance (0)", want: Funds},
	{from: "infura", text: "daily request count exceeded, request rate limited", want: Limited, code: -32005},
	{from: "infura", text: "project ID request rate exceeded", want: Limited, code: -32005},
	{from: "infura", text: "query returned more than 10000 results. Try with this block range [0x1, 0x2].", want: TooMuch, code: -32005},
	{from: "infura", text: "rejected due to project ID settings", want: Denied},
	{from: "alchemy", text: "Your app has exceeded its compute units per second capacity. If you have retries enabled, you can safely ignore this message.", want: Limited, code: 429, status: 429},
	{from: "alchemy", text: "Monthly capacity limit exceeded. Visit https://dashboard.example to upgrade your scaling policy for continued service.", want: Limited, code: 429},
	{from: "alchemy", text: "Must be authenticated!", want: Denied, code: -32600, status: 401},
	{from: "alchemy", text: "Must be authenticated!", want: Denied, code: -32600},
	{from: "alchemy", text: "Log response size exceeded. You can make eth_getLogs requests with up to a 2K block range and no limit on the response size", want: TooMuch, code: -32602},
	{from: "alchemy", text: "Under the Free tier plan, you can make eth_getLogs requests with up to a 10 block range. Based on your parameters, this block range should work: [0x1, 0xa]", want: TooMuch, code: -32600, status: 400},
	{from: "quicknode", text: "50/second request limit reached - reduce calls per second or upgrade your account at quicknode.com", want: Limited, code: -32007, status: 429},
	{from: "quicknode", text: "eth_getLogs is limited to a 10,000 range", want: TooMuch, code: -32614},
	{from: "quicknode", text: "the method eth_getBlockReceipts does not exist/is not available", want: Unsupported, code: -32601},
	{from: "ankr", text: "Too many requests, reason: call rate limit exhausted, retry in 10s", want: Limited, code: -32090, status: 429},
	{from: "ankr", text: "block range is too wide", want: TooMuch, code: -32062},
	{from: "publicnode", text: "exceed maximum block range: 50000", want: TooMuch, code: -32701, status: 403},
	{from: "ankr", text: "Unauthorized: You must authenticate your request with an API key.", want: Denied, code: -32000, status: 403},
	{from: "drpc", text: "ranges over 10000 blocks are not supported on freetier", want: TooMuch, code: 35},
	{from: "drpc", text: "You've reached the quota limit for your current plan", want: Limited},
	{from: "drpc", text: "Can't route your request to suitable provider, no available upstreams", want: Broken, status: 500},
	{from: "cloudflare", text: "Cannot fulfill request", want: Broken, code: -32046},
	{from: "cloudflare", text: "Invalid eth_getLogs request. 'fromBlock'-'toBlock' range too large. Max range: 800", want: TooMuch, code: -32047},
	{from: "publicnode", text: "exceed maximum block range: 50000", want: TooMuch, code: -32701},
	{from: "llamarpc", text: "query exceeds max results 20000, retry with the range 1-2", want: TooMuch},
	{from: "bsc", text: "method eth_getLogs in batch triggered rate limit", want: Limited, code: -32005},
	{from: "bsc", text: "limit exceeded", want: Limited, code: -32005},
	{from: "moralis", text: "Your plan: Free, per-second limit exceeded. Please upgrade.", want: Limited},
	{from: "blastapi", text: "Sending too many requests", want: Limited},
	{from: "chainstack", text: "You've exceeded the RPS limit available on the current plan. Learn more", want: Limited, code: -32005, status: 429},
	{from: "a provider", text: "", want: Limited, status: 429},
	{from: "a provider", text: "Payment Required", want: Limited, status: 402},
	{from: "a provider", text: "", want: Denied, status: 401},
	{from: "a provider", text: "request count exceeded", want: Limited, status: 403},
	{from: "nginx", text: "", want: Broken, status: 502},
	{from: "nginx", text: "nonce too low", want: Broken, code: -32000, status: 503},
	{from: "nginx", text: "", want: TooMuch, status: 413},
	{from: "a redirect", text: "", want: Broken, status: 301},

	{from: "proxyd", text: "backend is currently not healthy to serve traffic", want: Broken, code: -32011, status: 503},
	{from: "proxyd", text: "no backends available for method", want: Broken, code: -32011},
	{from: "proxyd", text: "over rate limit", want: Limited, code: -32016, status: 429},
	{from: "proxyd", text: "sender is over rate limit", want: Limited, code: -32017},
	{from: "proxyd", text: "rpc method is not whitelisted", want: Unsupported, code: -32001, status: 400},
	{from: "geth", text: "request timed out", want: Broken, code: -32002},
	{from: "geth", text: "header not found", want: Missing},
	{from: "geth", text: "missing trie node 9af8656ecee00eb8e81bc7e03464964a356798fdacff6f2947059465dd262861 (path ) <nil>", want: Missing},
	{from: "geth", text: "transaction indexing is in progress", want: Missing},
	{from: "geth", text: "historical state 0x1234 is not available", want: Missing},
	{from: "geth", text: "finalized block not found", want: Missing},
	{from: "geth", text: "unknown block", want: Missing},
	{from: "geth", text: "state 0x12 is not available, missing trie node", want: Missing},
	{from: "geth", text: "pruned history unavailable", want: Missing, code: 4444},
	{from: "geth", text: "the method eth_maxPriorityFeePerGas does not exist/is not available", want: Unsupported, code: -32601},
	{from: "geth", text: "invalid argument 0: json: cannot unmarshal hex string without 0x prefix", want: Malformed, code: -32602},
	{from: "geth", text: "missing value for required argument 0", want: Malformed, code: -32602},
	{from: "erigon", text: "block not found: 123", want: Missing},
	{from: "erigon", text: "old data not available due to pruning", want: Missing},
	{from: "reth", text: "block not found: canonical hash 0x12", want: Missing, code: -32001},
	{from: "reth", text: "no state found for block number 5", want: Missing, code: -32001},
	{from: "reth", text: "distance to target block exceeds maximum proof window", want: Missing},
	{from: "nethermind", text: "No state available for block 0x1", want: Missing, code: -32002},
	{from: "nethermind", text: "Header not found", want: Missing, code: -32001},
	{from: "besu", text: "World state unavailable", want: Missing},
	{from: "avalanche", text: "cannot query unfinalized data", want: Missing},
	{from: "anvil", text: "BlockOutOfRangeError: block height is 5 but requested was 9", want: Missing},
	{from: "geth", text: "block range extends beyond current head block", want: Missing, code: -32602},
	{from: "reth", text: "block range extends beyond current head block: requested 21000100, head 21000000", want: Missing, code: -32602},
	{from: "geth", text: "invalid block range params", want: Missing, code: -32000},
	{from: "erigon", text: "requested block range [4096, 8192] is beyond latest executed block 4000 (node is still syncing)", want: Missing},
	{from: "relay", text: "Mirror node upstream failure: statusCode=503, message=Service Unavailable", want: Broken, code: -32020},
	{from: "relay", text: "IP Rate limit exceeded on eth_call", want: Limited, code: -32605, status: 409},
	{from: "relay", text: "HBAR Rate limit exceeded", want: Limited, code: -32606},
	{from: "relay", text: "Request timeout. Please try again.", want: Broken, code: -32010},
	{from: "relay", text: "Requested resource not found. address '0x12'.", want: Missing, code: -32001, status: 404},
	{from: "relay", text: "Unsupported JSON-RPC method", want: Unsupported, code: -32601, status: 400},
	{from: "anybody", text: "internal error", want: Broken, code: -32603},
	{from: "anybody", text: "Internal JSON-RPC error.", want: Broken, code: -32603},
	{from: "anybody", text: "an error that nobody has seen", want: Broken, code: -32603},
	{from: "anybody", text: "an error that nobody has seen", want: Unknown, code: -32000},
	{from: "anybody", text: "", want: Unknown, code: -32000},
	{from: "zksync", text: "failed to validate the transaction. reason: Validation revert", want: Unknown, code: 3, data: "0x"},

	// Transactions.
	{from: "geth", text: "already known", want: Known},
	{from: "geth", text: "known transaction: 0x7f657507aee0511e36d2d1972a6b22e917cc89f92b6c12c4dbd57eaabb236960", want: Known},
	{from: "geth", text: "unknown transaction", want: Unknown, code: -32000},
	{from: "anvil", text: "transaction already imported", want: Known},
	{from: "nethermind", text: "AlreadyKnown", want: Known},
	{from: "besu", text: "Known transaction", want: Known},
	{from: "erigon", text: "block already known", want: Known},
	{from: "erigon", text: "INTERNAL_ERROR: existing tx with same hash", want: Known},
	{from: "parity", text: "Transaction with the same hash was already imported.", want: Known},
	{from: "substrate", text: "submit transaction to pool failed: Pool(AlreadyImported)", want: Known},
	{from: "zksync", text: "known transaction. transaction with hash 0x12 is already in the system", want: Known},

	{from: "geth", text: "replacement transaction underpriced", want: SlotTaken},
	{from: "geth", text: "replacement transaction underpriced: new tx gas fee cap 1 <= 2 queued", want: SlotTaken},
	{from: "nethermind", text: "FeeTooLowToCompete", want: SlotTaken},
	{from: "nethermind", text: "OwnNonceAlreadyUsed", want: SlotTaken},
	{from: "besu", text: "Replacement transaction underpriced", want: SlotTaken},
	{from: "parity", text: "Transaction gas price 100wei is too low. There is another transaction with same nonce in the queue with gas price 150wei.", want: SlotTaken},
	{from: "klaytn", text: "there is another tx which has the same nonce in the tx pool", want: SlotTaken},
	{from: "hardhat", text: "Replacement transaction underpriced. A gasPrice/maxFeePerGas of at least 1 is necessary to replace the existing transaction with nonce 0.", want: SlotTaken},

	{from: "geth", text: "nonce too low: next nonce 1, tx nonce 0", want: NonceUsed},
	{from: "geth", text: "nonce too low: address 0x0000000000000000000000000000000000000001, tx: 0 state: 1", want: NonceUsed},
	{from: "hardhat", text: "Nonce too low. Expected nonce to be 5 but got 4.", want: NonceUsed},
	{from: "nethermind", text: "OldNonce, Current nonce: 4, nonce of rejected tx: 3", want: NonceUsed},
	{from: "parity", text: "Transaction nonce is too low. Try incrementing the nonce.", want: NonceUsed},
	{from: "arbitrum", text: "invalid transaction nonce", want: NonceUsed},
	{from: "substrate", text: "submit transaction to pool failed: Pool(Stale)", want: NonceUsed},
	{from: "avalanche", text: "call failed: nonce too low: address 0x0499BEA33347cb62D79A9C0b1EDA01d8d329894c current nonce (5833) > tx nonce (5511)", want: NonceUsed},
	{from: "zksync", text: "nonce too low. allowed nonce range: 5 - 55, actual: 4", want: NonceUsed, code: 3, data: "0x"},
	{from: "relay", text: "Nonce too low. Provided nonce: 1, current nonce: 2", want: NonceUsed, code: 32001, status: 400},
	{from: "relay", text: "transaction failed: WRONG_NONCE", want: NonceUsed},

	{from: "op-geth", text: "nonce too high: tx nonce 7, gapped nonce 5", want: Gap},
	{from: "nethermind", text: "NonceGap, Future nonce. Expected nonce: 3", want: Gap},
	{from: "besu", text: "Transaction nonce is too distant from current sender nonce", want: Gap},
	{from: "hardhat", text: "Nonce too high. Expected nonce to be 0 but got 3. Note that transactions can't be queued when automining.", want: Gap},
	{from: "relay", text: "Nonce too high. Provided nonce: 5, current nonce: 2", want: Gap},

	{from: "geth", text: "transaction gas price below minimum: gas tip cap 0, minimum needed 1", want: FeeTooLow},
	{from: "geth", text: "transaction underpriced", want: FeeTooLow},
	{from: "op-geth", text: "transaction underpriced: tip needed 1, tip permitted 0", want: FeeTooLow},
	{from: "op-geth", text: "max fee per gas less than block base fee: address 0x0000000000000000000000000000000000000001, maxFeePerGas: 1, baseFee: 252", want: FeeTooLow},
	{from: "optimism", text: "fee too low: 30365610000000, use at least tx.gasLimit = 5874374 and tx.gasPrice = 15000000", want: FeeTooLow},
	{from: "nethermind", text: "FeeTooLow, MaxFeePerGas too low. MaxFeePerGas: 1, BaseFee: 7, MaxPriorityFeePerGas:1, Block number: 5", want: FeeTooLow},
	{from: "besu", text: "Gas price below configured minimum gas price", want: FeeTooLow},
	{from: "hardhat", text: "Transaction maxFeePerGas (1) is too low for the next block, which has a baseFeePerGas of 875000000", want: FeeTooLow},
	{from: "arbitrum", text: "gas price too low", want: FeeTooLow},
	{from: "celo", text: "gasprice is less than gas price minimum floor", want: FeeTooLow},
	{from: "relay", text: "Gas price '10' is below configured minimum gas price '710000000000'", want: FeeTooLow, code: -32009, status: 400},
	{from: "relay", text: "Consensus node error: INSUFFICIENT_TX_FEE (9)", want: FeeTooLow},

	{from: "geth", text: "insufficient funds for gas * price + value: balance 0, tx cost 21000, overshot 21000", want: Funds},
	{from: "geth", text: "insufficient funds for transfer", want: Funds},
	{from: "anvil", text: "Insufficient funds for gas * price + value", want: Funds},
	{from: "besu", text: "Upfront cost exceeds account balance (transaction up-front cost 0x1 exceeds transaction sender account balance 0x0)", want: Funds},
	{from: "nethermind", text: "InsufficientFunds, Account balance: 0, cumulative cost: 21000", want: Funds},
	{from: "hardhat", text: "Sender doesn't have enough funds to send tx. The max upfront cost is: 1 and the sender's balance is: 0.", want: Funds},
	{from: "arbitrum", text: "not enough funds for gas", want: Funds},
	{from: "zksync", text: "insufficient funds for gas + value. balance: 0, fee: 1, value: 0", want: Funds},
	{from: "relay", text: "INSUFFICIENT_PAYER_BALANCE", want: Funds},

	{from: "geth", text: "intrinsic gas too low: gas 20000, minimum needed 21000", want: Fatal},
	{from: "anvil", text: "intrinsic gas too high", want: Fatal},
	{from: "besu", text: "Intrinsic gas exceeds gas limit", want: Fatal},
	{from: "geth", text: "invalid sender", want: Fatal},
	{from: "op-geth", text: "transaction type not supported", want: Policy},
	{from: "geth before a fork", code: -32000, text: "transaction type not supported: type 4 rejected, pool not yet in Prague", want: Policy},
	{from: "a provider", code: -32602, text: "Transactions of type 4 are not supported", want: Policy},
	{from: "geth", text: "rlp: value size exceeds available input length", want: Policy},
	{from: "anvil", text: "Failed to decode transaction", want: Policy},
	{from: "geth", text: "max priority fee per gas higher than max fee per gas: address 0x0, maxPriorityFeePerGas: 2, maxFeePerGas: 1", want: Fatal},
	{from: "zksync", text: "max priority fee per gas higher than max fee per gas", want: Fatal, code: 3, data: "0x"},
	{from: "zksync", text: "Not enough gas for transaction validation", want: Fatal},

	// We sign for the chain of our settings: who finds that wrong serves another one.
	{from: "geth", text: "invalid chain id for signer: have 1 want 2", want: WrongChain},
	{from: "besu", text: "Transaction was meant for chain id 1 and not this chain id 5: wrong chainId", want: WrongChain},

	{from: "geth", text: "tx fee (2.10 ether) exceeds the configured cap (1.00 ether)", want: Policy},
	{from: "geth", text: "address already reserved", want: Policy},
	{from: "geth", text: "in-flight transaction limit reached for delegated accounts", want: Policy},
	{from: "geth", text: "account limit exceeded: pooled 1", want: Policy},
	{from: "geth", text: "txpool is full", want: Policy},
	{from: "geth", text: "oversized data: transaction size 131080, limit 131072", want: Policy},
	{from: "geth", text: "exceeds block gas limit", want: Policy},
	{from: "op-geth", text: "exceeds maximum per-transaction gas limit", want: Policy},
	{from: "geth", text: "only replay-protected (EIP-155) transactions allowed over RPC", want: Policy},
	{from: "parity", text: "There are too many transactions in the queue. Your transaction was dropped due to limit. Try increasing the fee.", want: Policy},
	{from: "arbitrum", text: "sequencer pending tx pool full, please try again", want: Policy},
	{from: "arbitrum", text: "tx dropped due to L2 congestion", want: Policy},
	{from: "besu", text: "Transaction fee cap exceeded", want: Policy},
	{from: "relay", text: "BUSY", want: Policy},
}

func TestJudge(t *testing.T) {
	for _, row := range recorded {
		codes := []int{row.code}
		if row.code == 0 && row.status < 300 {
			codes = []int{-32000, -32003, -32602, -32603} // they decide nothing
		}
		for _, code := range codes {
			if got := Judge(row.status, code, row.text, row.data); got != row.want {
				t.Errorf("%s: %q, code %d, HTTP %d: %s, want %s", row.from, row.text, code, row.status, got, row.want)
			}
		}
	}
}

// Whatever an endpoint says has a class. Only an execution that failed in so many words, or that has its output with it, is a revert, and
// nothing that a limit or a proxy in trouble says is about a call.
func FuzzJudge(f *testing.F) {
	for _, row := range recorded {
		f.Add(row.status, row.code, row.text, row.data)
	}
	f.Fuzz(func(t *testing.T, status, code int, text, data string) {
		class := Judge(status, code, text, data)
		if class == "" {
			t.Fatal("an error without a class")
		}
		if class == Reverted && !revertData(data) && of(reverts, strings.TrimSpace(clip(text))) != Reverted && code != -32015 {
			t.Fatal("a revert that is not proved")
		}
		if (status == 429 || status == 401 || status >= 500) && !revertData(data) && !class.AboutEndpoint() && class != TooMuch {
			t.Fatalf("HTTP %d is about the call: %s", status, class)
		}
	})
}
