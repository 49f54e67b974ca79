package mirrorrest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/getkin/kin-openapi/openapi3"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/history"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

// A specification is the published description of the API.
type specification struct{ doc *openapi3.T }

func loadSpecification(t *testing.T) *specification {
	t.Helper()
	raw := must.Get(os.ReadFile("testdata/mirror-openapi.yml"))(t)
	doc := must.Get(openapi3.NewLoader().LoadFromData(raw))(t)
	s := &specification{doc}
	s.amend(t)
	return s
}

// amend corrects the description where the mirror node itself does not keep to it.
func (s *specification) amend(t *testing.T) {
	t.Helper()
	schema := func(name string) *openapi3.Schema {
		ref := s.doc.Components.Schemas[name]
		if ref == nil {
			t.Fatalf("no schema %s", name)
		}
		return ref.Value
	}
	// null unless a creation failed; the summary of the same result says so.
	details := schema("ContractResultDetails")
	delete(details.AllOf[1].Value.Properties, "failed_initcode")
	// A call may return nothing.
	schema("ContractCallResponse").Properties["result"].Value.Pattern = "^0x[0-9a-fA-F]*$"
	// data is empty where there is none.
	status := schema("Error").Properties["_status"].Value
	message := status.Properties["messages"].Value.Items.Value
	message.Properties["data"].Value.Pattern = "^(0x[0-9a-fA-F]*)?$"
	// Not every node has a proxy for browsers.
	proxy := *schema("ServiceEndpoint")
	proxy.Nullable = true
	schema("NetworkNode").Properties["grpc_proxy_endpoint"] = &openapi3.SchemaRef{Value: &proxy}
	// A reference with a remark beside it is written as "all of" the two. The remark
	// alone has no type, which the validator takes for one without null.
	for _, ref := range s.doc.Components.Schemas {
		for _, field := range ref.Value.Properties {
			for _, part := range field.Value.AllOf {
				if part.Value.Type == nil {
					part.Value.Nullable = true
				}
			}
			field.Value.Nullable = field.Value.Nullable || field.Value.AllOf != nil
		}
	}
}

// check validates an answer to an operation, given by its path in the description.
func (s *specification) check(t *testing.T, method, path string, r response) {
	t.Helper()
	item := s.doc.Paths.Find("/api/v1/" + path)
	if item == nil {
		t.Fatalf("%s is not described", path)
	}
	status := r.status
	answers := item.GetOperation(method).Responses.Status(status)
	if answers == nil {
		t.Errorf("%s %s: status %d is not described", method, path, status)
		return
	}
	media := answers.Value.Content.Get(r.header.Get("Content-Type"))
	if media == nil {
		t.Errorf("%s %s: no %s is described for %d", method, path, r.header.Get("Content-Type"), status)
		return
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(r.body))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if err := media.Schema.Value.VisitJSON(value, openapi3.MultiErrors()); err != nil {
		t.Errorf("%s %s, status %d: %v\n%.2000s", method, path, status, err, r.body)
	}
	if status < 300 {
		for _, problem := range missingFields(media.Schema.Value, value, path) {
			t.Error(problem)
		}
	}
}

// missingFields compares the described fields with those that are there: an answer
// without a field validates, but clients that look for it would not find it.
func missingFields(schema *openapi3.Schema, value any, at string) []string {
	switch v := value.(type) {
	case []any:
		if schema.Items == nil || len(v) == 0 {
			return nil
		}
		return missingFields(schema.Items.Value, v[0], at+"[]")
	case map[string]any:
		var problems []string
		described := properties(schema)
		for _, name := range slices.Sorted(maps.Keys(described)) {
			if field, ok := v[name]; ok {
				problems = append(problems, missingFields(described[name], field, at+"."+name)...)
			} else if !optional[name] {
				problems = append(problems, fmt.Sprintf("%s has no %s", at, name))
			}
		}
		for name := range v {
			if _, ok := described[name]; !ok && len(described) > 0 {
				problems = append(problems, fmt.Sprintf("%s has %s, which is not described", at, name))
			}
		}
		return problems
	default:
		return nil
	}
}

// optional fields are left out on purpose: delegations are behind a switch in the
// mirror node and do not exist here, and a token has the fees of its type.
var optional = map[string]bool{"authorization_list": true, "royalty_fees": true, "fractional_fees": true}

func properties(schema *openapi3.Schema) map[string]*openapi3.Schema {
	all := map[string]*openapi3.Schema{}
	for _, part := range schema.AllOf {
		maps.Copy(all, properties(part.Value))
	}
	for name, field := range schema.Properties {
		all[name] = field.Value
	}
	return all
}

// A scene is a network on which everything happened once.
type scene struct {
	*network
	contract     common.Address
	contractID   hedera.ID
	transfer     *history.Record // Ethereum, plain
	call         *history.Record // with logs, storage and actions
	reverted     *history.Record
	creation     *history.Record
	wrongNonce   *history.Record
	native       *history.Record // a HAPI transfer that makes a hollow account
	hollow       common.Address
	hollowID     hedera.ID
	internalMake *history.Record // a contract made by a contract
	coin, art    hedera.ID       // a fungible token with custom fees, and one of NFTs
	topic        hedera.ID
	message      *history.Record // the newest of the topic
	schedule     *history.Record // the creation of one that has executed
	royalty      *history.Record // a transfer that caused a custom fee
}

func newScene(t testing.TB) *scene {
	t.Helper()
	s := &scene{network: newNetwork(t, ledger.Config{})}
	s.ledger.SetNodes([]ledger.NodeInfo{
		{NodeID: 0, Account: hedera.Entity(3), Host: "127.0.0.1", Port: 50211},
		{NodeID: 1, Account: hedera.Entity(4), Host: "127.0.0.1", Port: 50212},
	})
	to := account(1).EVMAddress()
	s.transfer = s.network.call(0, &types.DynamicFeeTx{To: &to, Value: weibar(7), Gas: 21_000})
	s.creation = s.network.call(0, &types.DynamicFeeTx{Data: initCode(counterCode())})
	s.contract, s.contractID = s.creation.Result.Address, s.creation.Result.Target
	forwarder, _ := s.deploy(1, forwarderCode())
	s.call = s.network.call(0, &types.DynamicFeeTx{To: &forwarder, Data: common.LeftPadBytes(s.contract[:], 32), Value: weibar(2)})
	s.reverted = s.network.call(0, &types.DynamicFeeTx{To: &s.contract, Data: []byte{callRevert}})
	s.wrongNonce = s.send(0, &types.DynamicFeeTx{Nonce: 99, To: &to})
	s.hollow = common.HexToAddress("0xb0b0000000000000000000000000000000000b0b")
	s.native = s.network.transfer(aliasID(s.hollow), 500_000_000)
	factory, _ := s.deploy(1, factoryCode())
	s.internalMake = s.network.call(1, &types.DynamicFeeTx{To: &factory})
	for _, rec := range []*history.Record{s.transfer, s.creation, s.call, s.native, s.internalMake} {
		s.mustSucceed(rec)
	}
	id, ok := s.ledger.View().Resolve(s.hollow)
	if !ok {
		t.Fatal("no hollow account")
	}
	s.hollowID = id
	return s
}

// request is one entry of TestAnswersAsDescribed: an operation as the description
// names it, and what to ask.
type described struct {
	operation string
	target    string
	status    int
}

func (s *scene) requests() []described {
	hash, at := s.call.EthereumHash.Hex(), s.call.Consensus.String()
	latest := s.ledger.View().LatestBlock()
	return []described{
		{"blocks", "blocks", 200},
		{"blocks", "blocks?limit=1&order=asc", 200},
		{"blocks", "blocks?foo=1", 400},
		{"blocks/{hashOrNumber}", "blocks/0", 200},
		{"blocks/{hashOrNumber}", "blocks/" + hexOf(latest.Hash[:]), 200},
		{"blocks/{hashOrNumber}", "blocks/99999", 404},
		{"blocks/{hashOrNumber}", "blocks/latest", 400},
		{"accounts", "accounts", 200},
		{"accounts", "accounts?balance=false", 200},
		{"accounts", "accounts?limit=x", 400},
		{"accounts/{idOrAliasOrEvmAddress}", "accounts/0.0.2", 200},
		{"accounts/{idOrAliasOrEvmAddress}", "accounts/" + account(0).EVMAddress().Hex(), 200},
		{"accounts/{idOrAliasOrEvmAddress}", "accounts/" + s.hollow.Hex(), 200},
		{"accounts/{idOrAliasOrEvmAddress}", "accounts/" + s.contract.Hex(), 200},
		{"accounts/{idOrAliasOrEvmAddress}", "accounts/0.0.999999", 404},
		{"accounts/{idOrAliasOrEvmAddress}", "accounts/not!one", 400},
		{"balances", "balances", 200},
		{"balances", "balances?account.id=0.0.1002&timestamp=" + at, 200},
		{"balances", "balances?timestamp=1", 200},
		{"balances", "balances?account.id=x", 400},
		{"contracts", "contracts", 200},
		{"contracts", "contracts?order=sideways", 400},
		{"contracts/{contractIdOrAddress}", "contracts/" + s.contract.Hex(), 200},
		{"contracts/{contractIdOrAddress}", "contracts/0.0.1002", 404},
		{"contracts/{contractIdOrAddress}", "contracts/x", 400},
		{"contracts/{contractIdOrAddress}/results", "contracts/" + s.contractID.String() + "/results", 200},
		{"contracts/{contractIdOrAddress}/results", "contracts/" + s.contractID.String() + "/results?from=x", 400},
		{"contracts/{contractIdOrAddress}/state", "contracts/" + s.contract.Hex() + "/state", 200},
		{"contracts/{contractIdOrAddress}/state", "contracts/" + s.contract.Hex() + "/state?slot=x", 400},
		{"contracts/{contractIdOrAddress}/results/{timestamp}", "contracts/" + s.contract.Hex() + "/results/" + at, 200},
		{"contracts/{contractIdOrAddress}/results/{timestamp}", "contracts/" + s.contract.Hex() + "/results/1.1", 404},
		{"contracts/{contractIdOrAddress}/results/{timestamp}", "contracts/" + s.contract.Hex() + "/results/x", 400},
		{"contracts/{contractIdOrAddress}/results/logs", "contracts/" + s.contract.Hex() + "/results/logs", 200},
		{"contracts/{contractIdOrAddress}/results/logs", "contracts/" + s.contract.Hex() + "/results/logs?topic0=0x1", 400},
		{"contracts/results", "contracts/results", 200},
		{"contracts/results", "contracts/results?hbar=false&internal=true", 200},
		{"contracts/results", "contracts/results?transaction.index=1", 400},
		{"contracts/results/{transactionIdOrHash}", "contracts/results/" + hash, 200},
		{"contracts/results/{transactionIdOrHash}", "contracts/results/" + hash + "?hbar=false", 200},
		{"contracts/results/{transactionIdOrHash}", "contracts/results/" + s.transfer.EthereumHash.Hex(), 200},
		{"contracts/results/{transactionIdOrHash}", "contracts/results/" + s.reverted.EthereumHash.Hex(), 200},
		{"contracts/results/{transactionIdOrHash}", "contracts/results/" + s.creation.ID.Mirror(), 200},
		{"contracts/results/{transactionIdOrHash}", "contracts/results/" + common.Hash{1}.Hex(), 404},
		{"contracts/results/{transactionIdOrHash}", "contracts/results/x", 400},
		{"contracts/results/{transactionIdOrHash}/actions", "contracts/results/" + hash + "/actions", 200},
		{"contracts/results/{transactionIdOrHash}/actions", "contracts/results/" + s.reverted.EthereumHash.Hex() + "/actions", 200},
		{"contracts/results/{transactionIdOrHash}/actions", "contracts/results/" + common.Hash{1}.Hex() + "/actions", 404},
		{"contracts/results/{transactionIdOrHash}/actions", "contracts/results/" + hash + "/actions?index=x", 400},
		{"contracts/results/logs", "contracts/results/logs", 200},
		{"contracts/results/logs", "contracts/results/logs?transaction.hash=" + hash, 200},
		{"contracts/results/logs", "contracts/results/logs?index=1", 400},
		{"network/exchangerate", "network/exchangerate", 200},
		{"network/exchangerate", "network/exchangerate?timestamp=x", 400},
		{"network/fees", "network/fees", 200},
		{"network/fees", "network/fees?order=desc&timestamp=lte:" + at, 200},
		{"network/fees", "network/fees?order=x", 400},
		{"network/nodes", "network/nodes", 200},
		{"network/nodes", "network/nodes?file.id=103", 400},
		{"network/registered-nodes", "network/registered-nodes", 200},
		{"network/stake", "network/stake", 200},
		{"network/supply", "network/supply", 200},
		{"network/supply", "network/supply?timestamp=1", 404},
		{"transactions", "transactions", 200},
		{"transactions", "transactions?account.id=0.0.2&type=debit&result=success", 200},
		{"transactions", "transactions?transactiontype=x", 400},
		{"transactions/{transactionId}", "transactions/" + s.native.ID.Mirror(), 200},
		{"transactions/{transactionId}", "transactions/" + s.internalMake.ID.Mirror(), 200},
		{"transactions/{transactionId}", "transactions/0.0.2-1-1", 404},
		{"transactions/{transactionId}", "transactions/x", 400},
		{"accounts/{idOrAliasOrEvmAddress}/airdrops/outstanding", "accounts/0.0.1002/airdrops/outstanding", 200},
		{"accounts/{idOrAliasOrEvmAddress}/airdrops/pending", "accounts/0.0.1002/airdrops/pending", 200},
		{"accounts/{idOrAliasOrEvmAddress}/allowances/crypto", "accounts/0.0.1002/allowances/crypto", 200},
		{"accounts/{idOrAliasOrEvmAddress}/allowances/nfts", "accounts/0.0.1002/allowances/nfts?owner=true", 200},
		{"accounts/{idOrAliasOrEvmAddress}/allowances/tokens", "accounts/0.0.1002/allowances/tokens", 200},
		{"accounts/{idOrAliasOrEvmAddress}/hooks", "accounts/0.0.1002/hooks", 200},
		{"accounts/{idOrAliasOrEvmAddress}/nfts", "accounts/0.0.1002/nfts", 200},
		{"accounts/{idOrAliasOrEvmAddress}/rewards", "accounts/0.0.1002/rewards", 200},
		{"accounts/{idOrAliasOrEvmAddress}/tokens", "accounts/0.0.1002/tokens?limit=100", 200},
		{"accounts/{idOrAliasOrEvmAddress}/tokens", "accounts/0.0.999999/tokens", 404},
		{"schedules", "schedules", 200},
		{"schedules", "schedules?account.id=0.0.2&schedule.id=gte:" + s.schedule.Did().Schedule.String(), 200},
		{"schedules", "schedules?schedule.id=x", 400},
		{"schedules/{scheduleId}", "schedules/" + s.schedule.Did().Schedule.String(), 200},
		{"schedules/{scheduleId}", "schedules/0.0.1002", 404},
		{"schedules/{scheduleId}", "schedules/x", 400},
		{"tokens", "tokens?name=x", 200},
		{"tokens", "tokens", 200},
		{"tokens", "tokens?type=x", 400},
		{"tokens/{tokenId}", "tokens/" + s.coin.String(), 200},
		{"tokens/{tokenId}", "tokens/" + s.art.LongZero().Hex(), 200},
		{"tokens/{tokenId}", "tokens/" + s.coin.String() + "?timestamp=1", 404},
		{"tokens/{tokenId}/balances", "tokens/" + s.coin.String() + "/balances", 200},
		{"tokens/{tokenId}/balances", "tokens/0.0.1002/balances", 200},
		{"tokens/{tokenId}/nfts", "tokens/" + s.art.String() + "/nfts", 200},
		{"tokens/{tokenId}/nfts/{serialNumber}", "tokens/" + s.art.String() + "/nfts/1", 200},
		{"tokens/{tokenId}/nfts/{serialNumber}", "tokens/" + s.art.String() + "/nfts/99", 404},
		{"tokens/{tokenId}/nfts/{serialNumber}", "tokens/" + s.art.String() + "/nfts/x", 400},
		{"tokens/{tokenId}/nfts/{serialNumber}/transactions", "tokens/" + s.art.String() + "/nfts/1/transactions", 200},
		{"transactions/{transactionId}", "transactions/" + s.royalty.ID.Mirror(), 200},
		{"accounts/{idOrAliasOrEvmAddress}", "accounts/0.0.1003", 200},
		{"accounts/{idOrAliasOrEvmAddress}/allowances/crypto", "accounts/0.0.2/allowances/crypto", 200},
		{"accounts/{idOrAliasOrEvmAddress}/allowances/nfts", "accounts/0.0.2/allowances/nfts", 200},
		{"accounts/{idOrAliasOrEvmAddress}/allowances/nfts", "accounts/0.0.1003/allowances/nfts?owner=false", 200},
		{"accounts/{idOrAliasOrEvmAddress}/allowances/tokens", "accounts/0.0.2/allowances/tokens", 200},
		{"accounts/{idOrAliasOrEvmAddress}/nfts", "accounts/0.0.2/nfts", 200},
		{"accounts/{idOrAliasOrEvmAddress}/tokens", "accounts/0.0.2/tokens", 200},
		{"tokens/{tokenId}", "tokens/0.0.1002", 404},
		{"tokens/{tokenId}", "tokens/x", 400},
		{"topics/{topicId}", "topics/0.0.1002", 404},
		{"topics/{topicId}", "topics/x", 400},
		{"topics/{topicId}", "topics/" + s.topic.String(), 200},
		{"topics/{topicId}/messages", "topics/" + s.topic.String() + "/messages", 200},
		{"topics/{topicId}/messages", "topics/" + s.topic.String() + "/messages?encoding=utf-8&sequencenumber=gt:1", 200},
		{"topics/{topicId}/messages", "topics/" + s.topic.String() + "/messages?encoding=x", 400},
		{"topics/{topicId}/messages/{sequenceNumber}", "topics/" + s.topic.String() + "/messages/2", 200},
		{"topics/{topicId}/messages/{sequenceNumber}", "topics/" + s.topic.String() + "/messages/9", 404},
		{"topics/{topicId}/messages/{sequenceNumber}", "topics/" + s.topic.String() + "/messages/x", 400},
		{"topics/messages/{timestamp}", "topics/messages/" + s.message.Consensus.String(), 200},
		{"topics/{topicId}/messages", "topics/0.0.1002/messages", 404},
		{"topics/messages/{timestamp}", "topics/messages/1.1", 404},
	}
}

// Every answer, of success or not, keeps to the published description, and lacks
// no field of it; and whatever the description has is asked for.
func TestAnswersAsDescribed(t *testing.T) {
	spec, s := loadSpecification(t), newTokenScene(t)
	asked := map[string]bool{"contracts/results/{transactionIdOrHash}/opcodes": true}
	for _, test := range s.requests() {
		asked[test.operation] = asked[test.operation] || test.status == http.StatusOK
		r := s.do(http.MethodGet, "/api/v1/"+test.target, "")
		if r.status != test.status {
			t.Errorf("%s: status %d, want %d: %s", test.target, r.status, test.status, r.body)
			continue
		}
		spec.check(t, http.MethodGet, test.operation, r)
	}
	for path, item := range spec.doc.Paths.Map() {
		if item.Get != nil && !asked[strings.TrimPrefix(path, "/api/v1/")] && !strings.Contains(path, "/hooks/{hookId}") {
			t.Errorf("nobody asks for %s", path)
		}
	}
	for _, query := range []string{"", "?memory=true&storage=true"} {
		target := "/api/v1/contracts/results/" + s.call.EthereumHash.Hex() + "/opcodes" + query
		r := s.do(http.MethodGet, target, "", "Accept-Encoding", "gzip")
		spec.check(t, http.MethodGet, "contracts/results/{transactionIdOrHash}/opcodes", r)
	}
}

func TestCallsAsDescribed(t *testing.T) {
	spec, s := loadSpecification(t), newScene(t)
	for body, status := range map[string]int{
		`{"to":"` + s.contract.Hex() + `","data":"0x02"}`:                 200,
		`{"to":"` + s.contract.Hex() + `","estimate":true}`:               200,
		`{"to":"` + s.contract.Hex() + `","data":"0x01"}`:                 400,
		`{"to":"` + s.contract.Hex() + `","gas":1}`:                       400,
		`{"to":"` + s.contract.Hex() + `","data":"0x02","block":"99999"}`: 404,
		`nonsense`: 400,
	} {
		r := s.do(http.MethodPost, "/api/v1/contracts/call", body, "Content-Type", "application/json")
		if r.status != status {
			t.Errorf("%s: status %d, want %d: %s", body, r.status, status, r.body)
			continue
		}
		spec.check(t, http.MethodPost, "contracts/call", r)
	}
	r := s.do(http.MethodPost, "/api/v1/contracts/call", "{}", "Content-Type", "text/plain")
	if r.status != http.StatusUnsupportedMediaType {
		t.Errorf("text/plain: status %d", r.status)
	}
	spec.check(t, http.MethodPost, "contracts/call", r)
}

// Every list gives the same rows in pages of one or two as at once, in either
// order, and ends.
func TestPagingEndsWithTheSameRows(t *testing.T) {
	s := newTokenScene(t)
	lists := map[string]string{
		"blocks":                          "blocks",
		"accounts?account.id=gte:0.0.980": "accounts",
		"accounts?account.id=gte:0.0.1000&account.id=lt:0.0.1020":       "accounts",
		"accounts?account.id=0.0.1002&account.id=0.0.1005&account.id=2": "accounts",
		"accounts/0.0.2":                                              "transactions",
		"balances?account.id=gte:0.0.980":                             "balances",
		"contracts":                                                   "contracts",
		"contracts/results":                                           "results",
		"contracts/results?internal=true":                             "results",
		"contracts/results/logs":                                      "logs",
		"contracts/" + s.contract.Hex() + "/results":                  "results",
		"contracts/" + s.contract.Hex() + "/results/logs":             "logs",
		"contracts/" + s.contract.Hex() + "/state":                    "state",
		"contracts/" + s.contract.Hex() + "/state?slot=gte:0x0":       "state",
		"contracts/" + s.contract.Hex() + "/state?slot=0x5&slot=0x0":  "state",
		"contracts/results/" + s.call.EthereumHash.Hex() + "/actions": "actions",
		"network/nodes":                                               "nodes",
		"tokens":                                                      "tokens",
		"tokens/" + s.coin.String() + "/balances":                     "balances",
		"schedules": "schedules",
		"topics/" + s.topic.String() + "/messages":                     "messages",
		"tokens/" + s.art.String() + "/nfts":                           "nfts",
		"tokens/" + s.art.String() + "/nfts/1/transactions":            "transactions",
		"accounts/0.0.2/nfts":                                          "nfts",
		"accounts/0.0.2/tokens":                                        "tokens",
		"accounts/0.0.2/allowances/crypto":                             "allowances",
		"accounts/0.0.2/allowances/tokens":                             "allowances",
		"accounts/0.0.2/allowances/nfts":                               "allowances",
		"transactions":                                                 "transactions",
		"transactions?account.id=0.0.2":                                "transactions",
		"transactions?account.id=gt:0.0.1002&account.id=lt:0.0.1004":   "transactions",
		"transactions?transactiontype=ethereumtransaction&result=fail": "transactions",
	}
	for path, key := range lists {
		for _, order := range []string{"asc", "desc"} {
			with := path + "?order=" + order
			if strings.Contains(path, "?") {
				with = path + "&order=" + order
			}
			whole := s.list(with+"&limit=100", key)
			if len(whole) < 2 && !strings.Contains(path, "result=fail") {
				t.Errorf("%s has %d rows, too few to tell", path, len(whole))
			}
			for _, limit := range []string{"1", "2", "3"} {
				paged := s.list(with+"&limit="+limit, key)
				if text(paged) != text(whole) {
					t.Errorf("%s by %s, %s: %d rows in pages, %d at once", path, limit, order, len(paged), len(whole))
				}
			}
		}
	}
}

// The last page says so in the body and has no Link header; the others have both.
func TestLinkHeader(t *testing.T) {
	s := newScene(t)
	r := s.do(http.MethodGet, "/api/v1/blocks?limit=2&order=asc", "")
	const next = "/api/v1/blocks?limit=2&order=asc&block.number=gt:1"
	if !bytes.Contains(r.body, []byte(`"links":{"next":"`+next+`"}`)) {
		t.Errorf("body: %s", r.body)
	}
	if got := r.header.Get("Link"); got != "<"+next+`>; rel="next"` {
		t.Errorf("header: %s", got)
	}
	if _, err := url.Parse(next); err != nil {
		t.Error(err)
	}
	r = s.do(http.MethodGet, "/api/v1/blocks?limit=100", "")
	if !bytes.Contains(r.body, []byte(`"links":{"next":null}`)) || r.header.Get("Link") != "" {
		t.Errorf("the last page: %s, %q", r.body, r.header.Get("Link"))
	}
}
