package ethapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"lockstep/internal/eth"
	"lockstep/internal/must"
	"lockstep/internal/relay/pending"
	"lockstep/rpc"
)

// difference is a row of "Where the profiles differ" in docs/METHODS.md: what a client asks, and what it hears in each profile.
type difference struct {
	ask             func(*deviant) string
	hiero, ethereum string
}

// requestID is what profile hiero puts before each error.
var requestID = regexp.MustCompile(`\[Request ID: [^\]]*\] `)

// hears is the answer to one call, without the request id of an error.
func (d *deviant) hears(method, params string) string {
	return requestID.ReplaceAllString(d.call(method, params).String(), "")
}

// member is one member of a result; "" if it is not there.
func (d *deviant) member(method, params, name string) string {
	d.t.Helper()
	return fields(d.t, d.call(method, params), name)[0]
}

// posts sends a body and returns status and answer.
func (d *deviant) posts(body string) (int, string) {
	d.t.Helper()
	answer := must.Get(http.Post(d.url, "application/json", strings.NewReader(body)))(d.t)
	defer answer.Body.Close()
	text := must.Get(io.ReadAll(answer.Body))(d.t)
	return answer.StatusCode, string(text)
}

// codes are the codes of the errors in an answer. A request id may look like one.
func codes(answer string) string {
	return strings.Join(regexp.MustCompile(`-[0-9]{5}`).FindAllString(requestID.ReplaceAllString(answer, ""), -1), " ")
}

// subscribes makes calls on one connection and returns the last answer.
func (d *deviant) subscribes(method string, calls ...string) string {
	d.t.Helper()
	l := idle(d.t, newFakeChain(1), func(s *settings) { s.RPC.Profile = d.settings.RPC.Profile })
	handler := l.Subscriptions.subscribe
	if method == "eth_unsubscribe" {
		handler = l.unsubscribe
	}
	conn, said := newFakeConn(), ""
	ids := map[any]string{}
	for _, params := range calls {
		switch result, err := l.try(conn, handler, params); answer := result.(type) {
		case nil:
			var e *eth.Error
			if !errors.As(err, &e) {
				d.t.Fatal(err)
			}
			said = strconv.Itoa(e.Code)
		case *rpc.Answer:
			answer.Sent(true)
			if said = ids[answer.Result]; said == "" {
				said = "a new id"
				ids[answer.Result] = "the same id"
			}
		default:
			said = fmt.Sprint(answer)
		}
	}
	return said
}

// connects opens a WebSocket connection to a relay of the profile.
func (d *deviant) connects() *websocket.Conn {
	d.t.Helper()
	config := d.settings.RPC
	config.WebSocket.PingInterval = 20
	registry := must.Get(rpc.NewRegistry(d.api.Methods()...))(d.t)
	dispatcher := must.Get(rpc.NewDispatcher(config, registry, rpc.Options{Logger: slog.New(slog.DiscardHandler), Metrics: rpc.NewMetrics(), Unknown: UnknownMethod}))(d.t)
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(d.t)
	must.Run(d.t, func(ctx context.Context) error { return rpc.NewWSServer(dispatcher).Run(ctx, ln) })
	conn, answer := must.Get2(websocket.DefaultDialer.DialContext(d.t.Context(), "ws://"+ln.Addr().String(), nil))(d.t)
	_ = answer.Body.Close()
	d.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// rawItems are the items of a list of RLP.
func (d *deviant) rawItems(method string) []rlp.RawValue {
	d.t.Helper()
	var list []rlp.RawValue
	must.Do(d.t, rlp.DecodeBytes((&network{relay: d.relay}).bytes(method, `["0x11"]`), &list))
	return list
}

// inPool is a member of one of the transactions on their way, as the pool writes it.
func inPool(name string) func(*deviant) string {
	return func(d *deviant) string {
		sender, _ := senderKey()
		var of map[string]map[string]map[string]any
		unmarshal(d.t, d.call("txpool_contentFrom", `["`+sender.Hex()+`"]`), &of)
		return fmt.Sprint(of["pending"]["3"][name])
	}
}

// onTheWay is a transaction that is in the pool only.
func onTheWay(nonce uint64) types.TxData {
	return &types.LegacyTx{Nonce: nonce, Gas: 21000, GasPrice: big.NewInt(71e10), To: &contract}
}

func differences() map[string]difference {
	const sent = `{"estimate":false,"block":"latest",` + to + `}`
	sender, _ := senderKey()
	zero, empty := `"`+(common.Hash{}).Hex()+`"`, `"`+types.EmptyRootHash.Hex()+`"`
	first := func(d *deviant) string { return d.block[0].Hash().Hex() }
	fails := func(detail, data string) func(*deviant) string {
		return func(d *deviant) string {
			d.node.fail(sent, http.StatusBadRequest, message("CONTRACT_REVERT_EXECUTED", detail, data))
			return d.hears("eth_call", `[{`+to+`},"latest"]`)
		}
	}
	logs := func(filter string) func(*deviant) string {
		return func(d *deviant) string {
			answer := d.call("eth_getLogs", filter)
			if answer.Error != nil {
				return requestID.ReplaceAllString(answer.String(), "")
			}
			return fmt.Sprintf("%d logs", len(indexes(d.t, answer)))
		}
	}
	ofBlock := func(number, name string) func(*deviant) string {
		return func(d *deviant) string { return d.member("eth_getBlockByNumber", `["`+number+`",false]`, name) }
	}
	return map[string]difference{
		"Texts of errors": {func(d *deviant) string {
			id, rest, ok := strings.Cut(d.call("eth_feeHistory", `["0x1","0x12",[]]`).Error.Message, "] ")
			if !ok {
				return id
			}
			return fmt.Sprint(strings.HasPrefix(id, "[Request ID: "), " ", rest)
		}, "true Request beyond head block: requested 18, head 17", "request beyond head block: requested 18, head 17"},
		"Text of a revert": {fails("not 0xabc", errorHi), `3 execution reverted: not 0xabc "` + errorHi + `"`, `3 execution reverted: hi "` + errorHi + `"`},
		"Message of a revert by one of Solidity's panics":          {fails("", panic11), `3 execution reverted: CONTRACT_REVERT_EXECUTED "` + panic11 + `"`, `3 execution reverted: arithmetic underflow or overflow "` + panic11 + `"`},
		"Data of a revert for which the mirror node gives no data": {fails("", ""), `3 execution reverted: CONTRACT_REVERT_EXECUTED ""`, `3 execution reverted "0x"`},
		"HTTP status of a failed call": {func(d *deviant) string {
			return strconv.Itoa(d.call("eth_getBalance", `["`+senderText()+`","`+common.MaxHash.Hex()+`"]`).status)
		}, "400", "200"},
		"HTTP status of a body that is too large": {func(d *deviant) string {
			status, _ := d.posts(`{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":["` + strings.Repeat("x", d.settings.RPC.HTTP.InputSizeLimit<<20) + `"]}`)
			return strconv.Itoa(status)
		}, "400", "413"},
		"A body of JSON that is neither a call nor a batch": {func(d *deviant) string {
			_, answer := d.posts("7")
			return codes(answer)
		}, "-32700", "-32600"},
		"A call without an id": {func(d *deviant) string {
			_, answer := d.posts(`{"jsonrpc":"2.0","method":"eth_chainId","params":[]}`)
			return codes(answer)
		}, "-32600", ""},
		"The methods of `BATCH_REQUESTS_DISALLOWED_METHODS` in a batch": {func(d *deviant) string {
			_, answer := d.posts(`[{"jsonrpc":"2.0","id":1,"method":"eth_newBlockFilter","params":[]}]`)
			return codes(answer)
		}, "-32007", ""},
		"A batch of too many calls": {func(d *deviant) string {
			calls := make([]string, d.settings.RPC.Batch.MaxSize+1)
			for i := range calls {
				calls[i] = `{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}`
			}
			_, answer := d.posts("[" + strings.Join(calls, ",") + "]")
			var refusals []json.RawMessage
			if json.Unmarshal([]byte(answer), &refusals) != nil {
				return answer
			}
			return strconv.Itoa(len(refusals))
		}, "101", "1"},
		"The block in `eth_getBalance`, `eth_getCode`, `eth_getTransactionCount`, `eth_getStorageAt` and `eth_call`": {
			func(d *deviant) string { return d.hears("eth_getBalance", `["`+senderText()+`"]`) },
			"-32602 Missing value for required parameter 1", `"0x112210f4768db400"`,
		},
		"null for an optional parameter": {func(d *deviant) string {
			d.node.set(`{"estimate":true,"block":"latest",`+to+`}`, `{"result":"0x5208"}`)
			return d.hears("eth_estimateGas", `[{`+to+`},null]`)
		}, "-32602 Invalid parameter 1: The value passed is not valid: null.", `"0x5208"`},
		"null for a member of a filter": {
			logs(`[{"address":null}]`),
			"-32602 Invalid parameter 'address' for FilterObject: Expected 0x prefixed string representing the address (20 bytes) or an array of addresses, value: null", "2 logs",
		},
		"null as the last of a filter's topics": {func(d *deviant) string {
			d.node.set("contracts/results/logs?timestamp=gte:1767225600.000000001&timestamp=lte:1767225601.999999999&topic0="+transferID[2:]+"&limit=100&order=desc",
				logList(logJSON(synthetic, tokenLog, "0x", 0, 0, 17, transferID), logJSON(synthetic, tokenLog, "0x", 0, 1, 17, transferID, transferID)))
			return logs(`[{"fromBlock":"0x11","topics":["` + transferID + `",null]}]`)(d)
		}, "2 logs", "1 logs"},
		"Block overrides of `eth_call` and `eth_estimateGas`": {
			func(d *deviant) string { return d.hears("eth_call", `[{`+to+`},"latest",{},{"number":"0x1234"}]`) },
			"-32602 Invalid params", `"0x"`,
		},
		"`eth_estimateGas` with more gas than a call may have": {func(d *deviant) string {
			const asked = `{"estimate":true,"block":"latest",` + to + `,"gas":%d}`
			d.node.fail(fmt.Sprintf(asked, callGas+1), http.StatusBadRequest, message("gas field must be less than or equal to 1000", "", ""))
			d.node.set(fmt.Sprintf(asked, callGas), `{"result":"0x5208"}`)
			return d.hears("eth_estimateGas", fmt.Sprintf(`[{%s,"gas":"0x%x"}]`, to, callGas+1))
		}, "-32000 Error occurred during transaction simulation: gas field must be less than or equal to 1000", `"0x5208"`},
		"The count of `eth_feeHistory` as a number, or in decimal": {func(d *deviant) string {
			inHex, answers := d.call("eth_feeHistory", `["0x1","latest",[]]`).String(), 0
			for _, count := range []string{"1", `"1"`} {
				if d.call("eth_feeHistory", `[`+count+`,"latest",[]]`).String() == inHex {
					answers++
				}
			}
			return strconv.Itoa(answers)
		}, "0", "2"},
		"The number of a block as a JSON number": {func(d *deviant) string {
			inHex := d.call("eth_getBlockByNumber", `["0x11",false]`).String()
			if d.call("eth_getBlockByNumber", `[17,false]`).String() != inHex {
				return "refused"
			}
			for method, params := range map[string]string{"eth_getBalance": `["` + sender.Hex() + `",17]`, "eth_call": `[{},17]`, "eth_getLogs": `[{"fromBlock":17,"toBlock":17}]`, "eth_getStorageAt": `["` + sender.Hex() + `","0x0",{"blockNumber":17}]`, "eth_estimateGas": `[{},{"blockNumber":17}]`, "eth_getBlockReceipts": `[{"blockNumber":17}]`, "debug_traceBlockByNumber": `[17]`, "debug_getRawBlock": `[17]`} {
				if e := d.call(method, params).Error; e != nil && e.Code == -32602 {
					return method + " refuses it"
				}
			}
			return "taken"
		}, "refused", "taken"},
		"An empty batch": {func(d *deviant) string {
			_, answer := d.posts("[]")
			if answer == "[]" {
				return answer
			}
			return codes(answer)
		}, "[]", "-32600"},
		"Fees that contradict each other, in `eth_call` and `eth_estimateGas`": {func(d *deviant) string {
			d.node.set(sent, `{"result":"0x2a"}`)
			for _, fees := range []string{`"gasPrice":"0x1","maxFeePerGas":"0x1"`, `"gasPrice":"0x1","maxPriorityFeePerGas":"0x1"`} {
				if !d.api.hiero() && d.call("eth_estimateGas", `[{`+to+`,`+fees+`}]`).Error == nil {
					return fees
				}
			}
			return d.hears("eth_call", `[{`+to+`,"maxFeePerGas":"0x1","maxPriorityFeePerGas":"0x2"},"latest"]`)
		}, `"0x2a"`, "-32000 Invalid arguments: maxFeePerGas (1) < maxPriorityFeePerGas (2)"},
		"Percentiles of `eth_feeHistory`": {func(d *deviant) string {
			if d.call("eth_feeHistory", `["0x1","latest",[50,25]]`).Error != nil {
				return "refused"
			}
			return "answered"
		}, "answered", "refused"},

		"Name in `web3_clientVersion`": {func(d *deviant) string { return d.hears("web3_clientVersion", `[]`) }, `"relay/1.2.3"`, `"lockstep/1.2.3"`},

		"Logs by the hash of an unknown block": {logs(`[{"blockHash":"` + common.MaxHash.Hex() + `"}]`), "0 logs", "-39012 header not found"},
		"Logs of a range that is not on the chain yet, or not all of it": {func(d *deviant) string {
			return logs(`[{"fromBlock":"0x12"}]`)(d) + "; " + logs(`[{"fromBlock":"0x11","toBlock":"0x12"}]`)(d) + "; " + logs(`[{"fromBlock":"0x11","toBlock":"0x64"}]`)(d)
		}, "0 logs; 2 logs; 0 logs", "-32602 block range extends beyond current head block: requested 18, head 17; -32602 block range extends beyond current head block: requested 18, head 17; -32602 block range extends beyond current head block: requested 100, head 17"},
		"Logs, or a filter for logs, of a range that begins after its end": {func(d *deviant) string {
			return logs(`[{"fromBlock":"0x11","toBlock":"0x10"}]`)(d) + "; " + d.hears("eth_newFilter", `[{"fromBlock":"0x64","toBlock":"0x63"}]`)
		}, "-39013 Invalid block range; -39013 Invalid block range", "-32602 invalid block range params; -32602 invalid block range params"},
		"Logs with `toBlock` alone, before the newest block":   {logs(`[{"toBlock":"0x10"}]`), "-32011 Provided toBlock parameter without specifying fromBlock", "-32602 invalid block range params"},
		"`eth_getBlockTransactionCountByNumber` and `…ByHash`": {func(d *deviant) string { return d.hears("eth_getBlockTransactionCountByHash", `["`+blockHash+`"]`) }, `"0x9"`, `"0x7"`},
		"`transactionsRoot` of a block with transactions": {func(d *deviant) string {
			if ofBlock("0x11", "transactionsRoot")(d) == `"`+blockHash+`"` {
				return "the block's hash"
			}
			return "another"
		}, "the block's hash", "another"},
		"`receiptsRoot` of a block without transactions": {ofBlock("0xf", "receiptsRoot"), zero, empty},
		"`withdrawalsRoot`": {ofBlock("0x11", "withdrawalsRoot"), zero, empty},
		"`gasPrice` of a transaction of type 2 or 4": {
			func(d *deviant) string {
				return d.member("eth_getTransactionByHash", `["`+d.block[4].Hash().Hex()+`"]`, "gasPrice")
			},
			`"0x0"`, `"0xa54f4c3c00"`,
		},
		"`gasPrice` and `input` of a synthetic transaction": {func(d *deviant) string {
			params := `["` + synthetic + `"]`
			return d.member("eth_getTransactionByHash", params, "gasPrice") + " " + d.member("eth_getTransactionByHash", params, "input")
		}, `"0xfe" "0x0000000000000000"`, `"0x0" "0x"`},
		"`value` of a native call with a negative amount, which the network refused": {func(d *deviant) string {
			d.node.set("contracts/results/"+oddHash+"?hbar=false", text(odd(d.block[0], member{"type": nil, "v": nil, "r": nil, "s": nil, "nonce": nil, "amount": -100, "status": "0x0", "result": "CONTRACT_NEGATIVE_VALUE"})))
			return d.member("eth_getTransactionByHash", `["`+oddHash+`"]`, "value")
		}, `"0xffffffffffffff9c"`, `"0x0"`},
		"Trace of a transaction that the network refused before it ran": {func(d *deviant) string {
			d.node.set("contracts/results/"+oddHash+"?hbar=false", text(odd(d.block[2], member{"status": "0x0", "result": "WRONG_NONCE", "gas_used": 0})))
			trace := fields(d.t, d.call("debug_traceTransaction", `["`+oddHash+`",{"tracer":"callTracer"}]`), "gas", "input", "error")
			return strings.Join(trace, " ")
		}, `"0x61a80" "0x" "WRONG_NONCE"`, `"0xc350" "0x01" "WRONG_NONCE"`},
		"`contractAddress` of a receipt that created nothing": {
			func(d *deviant) string {
				return d.member("eth_getTransactionReceipt", `["`+first(d)+`"]`, "contractAddress")
			},
			`"` + strings.ToLower(contract.Hex()) + `"`, "null",
		},
		"`root` of a receipt, and the first element of a raw one": {func(d *deviant) string {
			var raw []hexutil.Bytes
			var receipt types.Receipt
			if err := json.Unmarshal(d.call("debug_getRawReceipts", `["0x11"]`).Result, &raw); err != nil || receipt.UnmarshalBinary(raw[0]) != nil {
				return fmt.Sprint(raw, err)
			}
			return d.member("eth_getTransactionReceipt", `["`+first(d)+`"]`, "root") + " " + hexutil.Encode(receipt.PostState)
		}, `"` + types.EmptyRootHash.Hex() + `" ` + types.EmptyRootHash.Hex(), " 0x"},
		"`eth_getTransactionByHash` before there is a block": {func(d *deviant) string {
			answer := d.call("eth_getTransactionByHash", `["`+pooled(d.t, onTheWay(3)).Hash().Hex()+`"]`)
			if answer.String() == "null" {
				return "null"
			}
			return strings.Join(fields(d.t, answer, "nonce", "blockHash"), " ")
		}, "null", `"0x3" null`},
		"`debug_getRawBlock`":                                    {func(d *deviant) string { return fmt.Sprint(len(d.rawItems("debug_getRawBlock")), " items") }, "20 items", "4 items"},
		"Beneficiary of a raw header":                            {func(d *deviant) string { return fmt.Sprintf("%x", []byte(d.rawItems("debug_getRawHeader")[2])) }, "940000000000000000000000000000000000000321", "94" + strings.Repeat("00", 20)},
		"Addresses in `txpool_content` and `txpool_contentFrom`": {inPool("from"), sender.Hex(), strings.ToLower(sender.Hex())},
		"Block of a transaction in the pool":                     {inPool("blockHash"), common.Hash{}.Hex(), "<nil>"},
		"Transactions in the pool behind a gap":                  {func(d *deviant) string { return d.hears("txpool_status", `[]`) }, `{"pending":"0x2","queued":"0x0"}`, `{"pending":"0x1","queued":"0x1"}`},
		"Traces": {func(d *deviant) string {
			return d.member("debug_traceTransaction", `["`+first(d)+`",{"tracer":"callTracer"}]`, "calls")
		}, "[]", ""},

		"A subscription to logs without a filter": {func(d *deviant) string { return d.subscribes("eth_subscribe", `["logs"]`) }, "-32603", "a new id"},
		"A subscription to logs of several addresses": {func(d *deviant) string {
			return d.subscribes("eth_subscribe", `["logs",{"address":["`+contract.Hex()+`","`+otherContract.Hex()+`"]}]`)
		}, "-32602", "a new id"},
		"A subscription to logs of an address that has no contract": {func(d *deviant) string {
			return d.subscribes("eth_subscribe", `["logs",{"address":"`+otherContract.Hex()+`"}]`)
		}, "-32602", "a new id"},
		"A second subscription of a connection to the same events": {func(d *deviant) string { return d.subscribes("eth_subscribe", `["newHeads"]`, `["newHeads"]`) }, "the same id", "a new id"},
		"A subscription without a name":                            {func(d *deviant) string { return d.subscribes("eth_subscribe", `[]`) }, "-32601", "-32602"},
		"`eth_unsubscribe` with an id that there is not":           {func(d *deviant) string { return d.subscribes("eth_unsubscribe", `["0x1"]`) }, "false", "-32000"},
		"A message that is not JSON": {func(d *deviant) string {
			conn := d.connects()
			must.Do(d.t, conn.WriteMessage(websocket.TextMessage, []byte("{")))
			for {
				_, answer := must.Get2(conn.ReadMessage())(d.t)
				if found := codes(string(answer)); found != "" {
					return found
				}
			}
		}, "-32600", "-32700"},
		"Keep-alive of a connection": {func(d *deviant) string {
			conn, heard := d.connects(), make(chan string, 1)
			conn.SetPingHandler(func(string) error {
				heard <- "a ping"
				return io.EOF // ends the reading below
			})
			if _, message, err := conn.ReadMessage(); err == nil {
				return string(message)
			}
			return <-heard
		}, `{"result":null,"jsonrpc":"2.0","id":null}`, "a ping"},
	}
}

// callGas is the maximum gas of a call in these tests.
const callGas = 1_000_000

// TestWhereTheProfilesDiffer asks in both profiles what each row of docs/METHODS.md is about. The document has these rows and no
// others, and the two answers of a row are never the same.
func TestWhereTheProfilesDiffer(t *testing.T) {
	rows := differences()
	content := must.Get(os.ReadFile(methodsFile))(t)
	_, section, _ := strings.Cut(string(content), "## Where the profiles differ\n")
	section, _, _ = strings.Cut(section, "\n## ")
	documented, tested := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(section) {
		if cells := strings.Split(strings.Trim(line, "|\n"), " | "); len(cells) == 3 && strings.TrimSpace(cells[0]) != "" {
			documented[strings.TrimSpace(cells[0])] = true
		}
	}
	for row := range rows {
		tested[row] = true
	}
	if diff := cmp.Diff(tested, documented); diff != "" {
		t.Errorf("%s has other rows than this test (-test +document)\n%s", methodsFile, diff)
	}
	for name, row := range rows {
		if row.hiero == row.ethereum {
			t.Errorf("%s: no difference", name)
		}
		for profile, want := range map[rpc.Profile]string{rpc.ProfileHiero: row.hiero, rpc.ProfileEthereum: row.ethereum} {
			t.Run(name+"/"+string(profile), func(t *testing.T) {
				pool := pending.New(pending.Config{MaxEntries: 10, MaxBytes: 1 << 20, ExecutedTTL: 1e11}, pending.Deps{})
				for _, nonce := range []uint64{3, 5} {
					pool.Add(pooled(t, onTheWay(nonce)))
				}
				r, block := populated(t, debugging, func(s *settings) {
					s.RPC.Profile, s.deps.MaxCallGas, s.deps.Pool, s.deps.PoolAPI = profile, callGas, pool, true
				})
				if got := row.ask(&deviant{relay: r, block: block, t: t}); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		}
	}
}

// deviant is a relay of one profile, for what established relays do differently from
// Ethereum's: each subtest is one such point and says what is right.
type deviant struct {
	*relay
	block []signed
	t     *testing.T
}

// says makes calls and compares their results, or their errors without the request id
// that profile hiero puts in front.
func (d *deviant) says(want ...[3]string) {
	d.t.Helper()
	for _, w := range want {
		got := d.call(w[0], w[1])
		if got.Error != nil && d.api.hiero() {
			id, rest, prefixed := strings.Cut(got.Error.Message, "] ")
			if !prefixed || !strings.HasPrefix(id, "[Request ID: ") {
				d.t.Errorf("%s: no request id in %q", w[0], got.Error.Message)
			}
			got.Error.Message = rest
		}
		if want := d.worded(w[2]); got.String() != want {
			d.t.Errorf("%s%s\n got %s\nwant %s", w[0], w[1], got, want)
		}
	}
}

// worded is an error as the profile words it.
func (d *deviant) worded(text string) string {
	if d.api.hiero() {
		return text
	}
	if strings.HasPrefix(text, "-32001 Requested resource not found. block ") {
		return "-32001 header not found"
	}
	for hiero, ethereum := range map[string]string{
		"-32602 Invalid parameter ":         "-32602 invalid argument ",
		"-32000 Request beyond head block:": "-32000 request beyond head block:",
		"-39012 Unknown block":              "-39012 header not found",
	} {
		if rest, ok := strings.CutPrefix(text, hiero); ok {
			return ethereum + rest
		}
	}
	return text
}

// picks compares members of a result.
func (d *deviant) picks(method, params string, want map[string]string) {
	d.t.Helper()
	for name, value := range want {
		if got := fields(d.t, d.call(method, params), name)[0]; got != value {
			d.t.Errorf("%s%s: %s is %s, want %s", method, params, name, got, value)
		}
	}
}

// Deviations of established relays, in both profiles, which no other test shows as a whole. Where their clients rely on one,
// profile hiero has it (TestWhereTheProfilesDiffer).
func TestDeviations(t *testing.T) {
	rows := map[string]func(*deviant){
		"logs and calls of an open range are not remembered":                    openRanges,
		"state near the head is not remembered":                                 nearHead,
		"hashes and objects name blocks everywhere":                             namedBlocks,
		"an unknown block hash":                                                 unknownHash,
		"a failed look-up of an address is no answer":                           failedLookUp,
		"null in a filter is refused in profile hiero":                          nullFields,
		"raw blocks are flat in profile hiero":                                  flatRawBlock,
		"there is admin_config":                                                 adminConfig,
		"the block parameter is required in profile hiero, and bytes are whole": defaults,
	}
	for name, row := range rows {
		for _, profile := range []rpc.Profile{rpc.ProfileEthereum, rpc.ProfileHiero} {
			t.Run(fmt.Sprintf("%s %s", name, profile), func(t *testing.T) {
				r, block := populated(t, debugging, func(s *settings) {
					s.RPC.Profile, s.Mirror.MaxBlockLogPages = profile, 2
					s.deps.Settings = func(context.Context) any { return json.RawMessage(`{"relay":{"config":{}},"upstreamDependencies":[]}`) }
				})
				row(&deviant{relay: r, block: block, t: t})
			})
		}
	}
}

func openRanges(d *deviant) {
	for _, filter := range []string{`[{}]`, `[{"fromBlock":"0x11"}]`, `[{"fromBlock":"0x11","toBlock":"latest"}]`} {
		if got := indexes(d.t, d.call("eth_getLogs", filter)); len(got) != 2 {
			d.t.Errorf("%s: %v", filter, got)
		}
	}
	d.node.grow(18)
	both := "timestamp=gte:1767225600.000000001&timestamp=lte:1767225603.999999999"
	d.node.set("contracts/results/logs?"+both+"&limit=100&order=desc", logList(logJSON(synthetic, tokenLog, "0x", 0, 0, 18)))
	for _, filter := range []string{`[{}]`, `[{"fromBlock":"0x11"}]`, `[{"fromBlock":"0x11","toBlock":"0x12"}]`} {
		if got := indexes(d.t, d.call("eth_getLogs", filter)); !slices.Equal(got, []string{"0x12:0x0"}) {
			d.t.Errorf("%s after the head moved: %v", filter, got)
		}
	}
	for _, block := range []string{`"latest"`, `{"blockNumber":"latest"}`} {
		sent := `{"estimate":false,"block":"latest",` + to + `}`
		for _, answer := range []string{"0x01", "0x02"} {
			d.node.set(sent, `{"result":"`+answer+`"}`)
			d.says([3]string{"eth_call", `[{` + to + `},` + block + `]`, `"` + answer + `"`})
		}
	}
}

func nearHead(d *deviant) {
	sender := senderText()
	account := func(balance, nonce int) {
		d.node.set("accounts/"+sender+"?transactions=false", fmt.Sprintf(
			`{"account":"0.0.1010","evm_address":"%s","balance":{"balance":%d,"timestamp":"1767225602.000000000"},"created_timestamp":"1767225590.000000001","ethereum_nonce":%d}`, sender, balance, nonce))
	}
	deployed := hexutil.Encode(contract[:])
	for n := 1; n <= 2; n++ {
		account(n, n)
		for _, block := range []string{"latest", "0x11", "0x12"} {
			d.says(
				[3]string{"eth_getBalance", `["` + sender + `","` + block + `"]`, fmt.Sprintf(`"0x%x"`, n*10_000_000_000)},
				[3]string{"eth_getTransactionCount", `["` + sender + `","` + block + `"]`, fmt.Sprintf(`"0x%x"`, n)},
			)
		}
	}
	d.says([3]string{"eth_getCode", `["` + deployed + `","0x12"]`, `"0x"`})
	d.node.set("contracts/"+deployed, `{"contract_id":"0.0.1003","evm_address":"`+deployed+`","created_timestamp":"1767225601.000000000","runtime_bytecode":"0x6001"}`)
	d.says([3]string{"eth_getCode", `["` + deployed + `","0x12"]`, `"0x6001"`})
}

// references are all ways to name the head.
func references() []string {
	return []string{`"0x11"`, `"` + blockHash + `"`, `{"blockNumber":"0x11"}`, `{"blockHash":"` + blockHash + `"}`, `{"blockHash":"` + blockHash + `","requireCanonical":true}`}
}

func namedBlocks(d *deviant) {
	deployed := hexutil.Encode(contract[:])
	d.node.set("contracts/"+deployed, `{"contract_id":"0.0.1003","evm_address":"`+deployed+`","created_timestamp":"1.000000000","runtime_bytecode":"0x6001"}`)
	for _, ref := range references() {
		for _, estimate := range []string{"false", "true"} {
			for _, block := range []string{"0x11", blockHash} {
				d.node.set(`{"estimate":`+estimate+`,"block":"`+block+`",`+to+`}`, `{"result":"0x2a"}`)
			}
		}
		d.says(
			[3]string{"eth_getCode", `["` + deployed + `",` + ref + `]`, `"0x6001"`},
			[3]string{"eth_getBalance", `["` + senderText() + `",` + ref + `]`, `"0x112210f4768db400"`},
			[3]string{"eth_getTransactionCount", `["` + senderText() + `",` + ref + `]`, `"0x6"`},
			[3]string{"eth_getStorageAt", `["` + deployed + `","0x0",` + ref + `]`, `"` + common.Hash{}.Hex() + `"`},
			[3]string{"eth_call", `[{` + to + `},` + ref + `]`, `"0x2a"`},
			[3]string{"eth_estimateGas", `[{` + to + `},` + ref + `]`, `"0x2a"`},
		)
		for _, method := range []string{"eth_getBlockReceipts", "debug_getRawReceipts", "debug_getRawBlock", "debug_getRawHeader"} {
			if got := d.call(method, `[`+ref+`]`); got.Error != nil || got.String() == "[]" || got.String() == `"0x"` {
				d.t.Errorf("%s %s: %s", method, ref, got)
			}
		}
	}
	// What names no block is refused in the words that clients know.
	const number = `Expected 0x prefixed hexadecimal block number, or the string "latest", "earliest" or "pending"`
	d.says(
		[3]string{"eth_getCode", `["` + deployed + `","3"]`, "-32602 Invalid parameter 1: The value passed is not valid: 3. " + number + " OR Expected Expected 0x prefixed string representing the hash (32 bytes) of a block"},
		[3]string{"eth_estimateGas", `[{` + to + `},"3"]`, "-32602 Invalid parameter 1: " + number + ", value: 3"},
		[3]string{"eth_call", `[{` + to + `},{"blockNumber":"3"}]`, "-32602 Invalid parameter 'blockNumber' for BlockNumberObject: " + number + ", value: 3"},
	)
}

func unknownHash(d *deviant) {
	for _, method := range []string{"eth_getBalance", "eth_getTransactionCount", "eth_getCode"} {
		d.says([3]string{method, `["` + senderText() + `","` + common.MaxHash.Hex() + `"]`, "-39012 Unknown block"})
	}
	d.says([3]string{"eth_getStorageAt", `["` + senderText() + `","0x0","` + common.MaxHash.Hex() + `"]`, "-32001 Requested resource not found. block '" + common.MaxHash.Hex() + "'."})
}

func failedLookUp(d *deviant) {
	const service = "0x00000000000000000000000000000000000004d2"
	d.node.fail("tokens/0.0.1234", http.StatusTooManyRequests, `{"_status":{"messages":[{"message":"Too many"}]}}`)
	d.says([3]string{"eth_getCode", `["` + service + `","latest"]`, "-32020 Mirror node upstream failure: statusCode=429, message=Too many 429"})
	d.node.set("tokens/0.0.1234", `{"created_timestamp":"1.000000000"}`)
	d.says([3]string{"eth_getCode", `["` + service + `","latest"]`, `"0xef01000000000000000000000000000000000000000167"`})
	// Nor is the number of a receiver shown for want of its alias.
	d.node.set("contracts/results/"+oddHash+"?hbar=false", text(odd(d.block[4], member{"to": service})))
	const alias = "accounts/0.0.1234?transactions=false"
	d.node.fail(alias, http.StatusServiceUnavailable, `{"_status":{"messages":[{"message":"Down"}]}}`)
	d.says([3]string{"eth_getTransactionByHash", `["` + oddHash + `"]`, "-32020 Mirror node upstream failure: statusCode=503, message=Down 503"})
	d.node.set(alias, `{"account":"0.0.1234","evm_address":"`+senderText()+`","balance":{"balance":1,"timestamp":"1.000000000"}}`)
	d.picks("eth_getTransactionByHash", `["`+oddHash+`"]`, map[string]string{"to": `"` + senderText() + `"`})
}

// nullFields: a null in a filter counts as absent for clients of Ethereum, and is refused
// for those of established relays.
func nullFields(d *deviant) {
	for field, text := range map[string]string{
		"address":   "Expected 0x prefixed string representing the address (20 bytes) or an array of addresses",
		"topics":    "Expected an array or array of arrays containing Expected 0x prefixed string representing the hash (32 bytes) of a topic",
		"fromBlock": `Expected 0x prefixed hexadecimal block number, or the string "latest", "earliest" or "pending"`,
		"toBlock":   `Expected 0x prefixed hexadecimal block number, or the string "latest", "earliest" or "pending"`,
		"blockHash": "Expected Expected 0x prefixed string representing the hash (32 bytes) of a block",
	} {
		filter := `[{"` + field + `":null}]`
		if d.api.hiero() {
			for _, method := range []string{"eth_getLogs", "eth_newFilter"} {
				d.says([3]string{method, filter, "-32602 Invalid parameter '" + field + "' for FilterObject: " + text + ", value: null"})
			}
		} else if got := indexes(d.t, d.call("eth_getLogs", filter)); len(got) != 2 {
			d.t.Errorf("%s: %v", filter, got)
		}
	}
}

// flatRawBlock: established relays write the header's fields, the transactions as strings,
// no uncles and no withdrawals in one list.
func flatRawBlock(d *deviant) {
	if !d.api.hiero() {
		return // debug_test.go has the others
	}
	n := &network{relay: d.relay}
	var list, head []rlp.RawValue
	if err := rlp.DecodeBytes(n.bytes("debug_getRawBlock", `["0x11"]`), &list); err != nil || len(list) != 20 {
		d.t.Fatalf("raw block: %v, %d parts", err, len(list))
	}
	if err := rlp.DecodeBytes(n.bytes("debug_getRawHeader", `["0x11"]`), &head); err != nil || len(head) != 17 {
		d.t.Fatalf("raw header: %v, %d parts", err, len(head))
	}
	for i, field := range head {
		if !bytes.Equal(field, list[i]) {
			d.t.Errorf("part %d is %x, in the header %x", i, list[i], field)
		}
	}
	var transactions [][]byte
	if err := rlp.DecodeBytes(list[17], &transactions); err != nil || len(transactions) != len(d.block)+1 {
		d.t.Fatalf("transactions: %v, %d of them", err, len(transactions))
	}
	var first types.Transaction
	if err := first.UnmarshalBinary(transactions[0]); err != nil || first.Hash() != d.block[0].Hash() {
		d.t.Errorf("%v, %s", err, first.Hash())
	}
	if string(list[18]) != "\xc0" || string(list[19]) != "\xc0" {
		d.t.Errorf("uncles %x, withdrawals %x", list[18], list[19])
	}
}

func adminConfig(d *deviant) {
	d.says(
		[3]string{"admin_config", `[]`, `{"relay":{"config":{}},"upstreamDependencies":[]}`},
	)
}

// defaults: clients of Ethereum may leave the block out; established relays want it.
func defaults(d *deviant) {
	d.node.set(`{"estimate":false,"block":"latest",`+to+`}`, `{"result":"0x2a"}`)
	for method, want := range map[string][3]string{ // parameters without the block, the answer, and the block's place
		"eth_getBalance":          {`"` + senderText() + `"`, `"0x112210f4768db400"`, "1"},
		"eth_getTransactionCount": {`"` + senderText() + `"`, `"0x6"`, "1"},
		"eth_getCode":             {`"` + contract.Hex() + `"`, `"0x"`, "1"},
		"eth_getStorageAt":        {`"` + contract.Hex() + `","0x0"`, `"` + common.Hash{}.Hex() + `"`, "2"},
		"eth_call":                {`{` + to + `}`, `"0x2a"`, "1"},
	} {
		d.says([3]string{method, "[" + want[0] + `,"latest"]`, want[1]})
		without, null := want[1], want[1]
		if d.api.hiero() {
			without = "-32602 Missing value for required parameter " + want[2]
			null = "-32602 Invalid parameter " + want[2] + ": The value passed is not valid: null."
		}
		d.says([3]string{method, "[" + want[0] + "]", without}, [3]string{method, "[" + want[0] + ",null]", null})
	}
	d.says([3]string{"web3_sha3", `["0x1"]`, "-32602 Invalid parameter 0: Expected 0x prefixed hexadecimal value with even length, value: 0x1"})
}
