package mirrorrest_test

import (
	"encoding/base32"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/google/go-cmp/cmp"

	"lockstep/devnet/ledger"
	"lockstep/hedera"
)

func TestAccount(t *testing.T) {
	s := newScene(t)
	view := s.ledger.View()
	dev, _ := view.Account(account(0).ID)
	got := s.get("accounts/0.0.1002?transactions=false", http.StatusOK)
	want := fmt.Sprintf(`{
		"account": "0.0.1002", "alias": %q, "auto_renew_period": %d,
		"balance": {"balance": %d, "timestamp": %q, "tokens": []},
		"created_timestamp": %q, "decline_reward": false, "delegation_address": null, "deleted": false,
		"ethereum_nonce": 4, "evm_address": "0x67d8d32e9bf1a9968a5ff53b87d777aa8ebbee69", "expiry_timestamp": %q,
		"key": {"_type": "ECDSA_SECP256K1", "key": "02b3c641418e89452cd5202adfd4758f459acb8e364f741fd16cd2db79835d39d2"},
		"max_automatic_token_associations": %d, "memo": "", "pending_reward": 0, "receiver_sig_required": false,
		"stake_period_start": null, "staked_account_id": null, "staked_node_id": null,
		"transactions": [], "links": {"next": null}
	}`, base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(dev.Alias), dev.AutoRenewPeriod,
		dev.Balance, view.Time(), dev.Created, dev.Expires, dev.MaxAutoAssociations)
	if diff := cmp.Diff(normal(t, want), normal(t, text(got))); diff != "" {
		t.Errorf("account (-want +got):\n%s", diff)
	}
}

// An account is found by its id in every form, its addresses and its alias.
func TestWaysToAnAccount(t *testing.T) {
	s := newScene(t)
	address := account(0).EVMAddress()
	alias := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(address.Bytes())
	for _, name := range []string{
		"0.0.1002", "0.1002", "1002", address.Hex(), address.Hex()[2:], "0.0." + address.Hex()[2:],
		"0x00000000000000000000000000000000000003ea", alias, "0.0." + alias,
	} {
		if got := s.get("accounts/"+name+"?transactions=false", http.StatusOK); text(got["account"]) != `"0.0.1002"` {
			t.Errorf("%s is %s", name, text(got["account"]))
		}
	}
	for name, status := range map[string]int{
		"0.0.999": http.StatusNotFound, "1.0.1002": http.StatusNotFound, "0.7.1002": http.StatusNotFound,
		"0x9999999999999999999999999999999999999999": http.StatusNotFound, "AAAA": http.StatusNotFound,
		"0.0.x": http.StatusBadRequest, "0x12": http.StatusBadRequest, "0.0.0.1": http.StatusBadRequest, "a-b": http.StatusBadRequest,
	} {
		s.get("accounts/"+name, status)
	}
}

func TestHollowAccount(t *testing.T) {
	s := newScene(t)
	got := s.get("accounts/"+s.hollow.Hex(), http.StatusOK)
	for field, want := range map[string]string{
		"account": text(s.hollowID.String()), "key": "null", "ethereum_nonce": "0",
		"evm_address": text(strings.ToLower(s.hollow.Hex())), "max_automatic_token_associations": "-1",
	} {
		if text(got[field]) != want {
			t.Errorf("%s is %s, want %s", field, text(got[field]), want)
		}
	}
	if balance := text(got["balance"].(map[string]any)["balance"]); balance != "500000000" {
		t.Errorf("balance %s", balance)
	}
}

func TestKeys(t *testing.T) {
	s := newScene(t)
	for id, want := range map[string]string{
		"0.0.2":    `{"_type":"ED25519","key":"0aa8e21064c61eab86e2a9c164565b4e7a9a4146106e0a6cd03a8c395a110e92"}`,
		"0.0.1002": `{"_type":"ECDSA_SECP256K1","key":"02b3c641418e89452cd5202adfd4758f459acb8e364f741fd16cd2db79835d39d2"}`,
	} {
		got := s.get("accounts/"+id+"?transactions=false", http.StatusOK)
		if diff := cmp.Diff(normal(t, want), normal(t, text(got["key"]))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
	contract := s.get("contracts/"+s.contractID.String(), http.StatusOK)
	key, _ := contract["admin_key"].(map[string]any)
	if key["_type"] != "ProtobufEncoded" || key["key"] == "" {
		t.Errorf("admin key of a contract: %s", text(contract["admin_key"]))
	}
}

func TestAccountTransactions(t *testing.T) {
	s := newScene(t)
	ids := func(path string) []any { return column(s.list(path, "transactions"), "consensus_timestamp") }
	at := func(r *ledger.Record) any { return r.Consensus.String() }
	ethereum := "accounts/" + account(0).EVMAddress().Hex() + "?transactiontype=ETHEREUMTRANSACTION"
	for _, test := range []struct {
		path string
		want []any
	}{
		{ethereum + "&limit=2", []any{at(s.reverted), at(s.call), at(s.creation), at(s.transfer)}},
		{ethereum + "&order=asc", []any{at(s.transfer), at(s.creation), at(s.call), at(s.reverted)}},
		{ethereum + "&timestamp=lte:" + s.creation.Consensus.String() + "&limit=1&order=desc", []any{at(s.creation), at(s.transfer)}},
		{ethereum + "&timestamp=gt:" + s.creation.Consensus.String(), []any{at(s.reverted), at(s.call)}},
		{"accounts/" + s.hollowID.String() + "?transactiontype=cryptotransfer", []any{at(s.native)}},
		{"accounts/0.0.1005", nil},
	} {
		if diff := cmp.Diff(test.want, ids(test.path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.path, diff)
		}
	}
	// The sum of an account's transfers since a moment is what changed since.
	then := s.get("accounts/0.0.1002?transactions=false&timestamp="+s.transfer.Consensus.String(), http.StatusOK)
	now := s.get("accounts/0.0.1002?transactions=false", http.StatusOK)
	moved := int64(0)
	for _, tx := range s.list("accounts/0.0.1002?timestamp=gt:"+s.transfer.Consensus.String(), "transactions") {
		for _, transfer := range tx["transfers"].([]any) {
			if row := transfer.(map[string]any); row["account"] == "0.0.1002" {
				moved += integer(t, row["amount"])
			}
		}
	}
	balance := func(a map[string]any) int64 { return integer(t, a["balance"].(map[string]any)["balance"]) }
	if moved == 0 || balance(then)+moved != balance(now) {
		t.Errorf("%d then, %d moved, %d now", balance(then), moved, balance(now))
	}
	if nonce := text(then["ethereum_nonce"]); nonce != "1" {
		t.Errorf("nonce after the first transaction: %s", nonce)
	}
}

func integer(t *testing.T, v any) (n int64) {
	t.Helper()
	if _, err := fmt.Sscan(text(v), &n); err != nil {
		t.Fatalf("%s: %v", text(v), err)
	}
	return n
}

func TestAccountFilters(t *testing.T) {
	s := newScene(t)
	for path, want := range map[string]string{
		"accounts?account.id=0.0.1003":                                                                  `["0.0.1003"]`,
		"accounts?account.id=" + account(1).EVMAddress().Hex():                                          `["0.0.1003"]`,
		"accounts?account.id=gt:0.0.1002&account.id=lte:0.0.1004":                                       `["0.0.1003","0.0.1004"]`,
		"accounts?account.id=gte:1002&account.id=lt:1004&order=desc":                                    `["0.0.1003","0.0.1002"]`,
		"accounts?account.id=1.0.1003":                                                                  `null`,
		"accounts?account.balance=500000000":                                                            fmt.Sprintf("[%q]", s.hollowID),
		"accounts?account.balance=gt:100000000000000000":                                                `["0.0.2"]`,
		"accounts?account.publickey=02b3c641418e89452cd5202adfd4758f459acb8e364f741fd16cd2db79835d39d2": `["0.0.1002"]`,
	} {
		if got := text(column(s.list(path, "accounts"), "account")); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	for _, row := range s.list("accounts?balance=false", "accounts") {
		if row["balance"] != nil {
			t.Fatalf("balance=false: %s", text(row))
		}
	}
	der := "accounts?limit=100&account.publickey=302a300506032b65700321000aa8e21064c61eab86e2a9c164565b4e7a9a4146106e0a6cd03a8c395a110e92"
	if rows := s.list(der, "accounts"); len(rows) == 0 || text(rows[0]["account"]) != `"0.0.2"` {
		t.Errorf("by a DER key: %s", text(column(rows, "account")))
	}
}

func TestBalances(t *testing.T) {
	s := newScene(t)
	at := func(when hedera.Timestamp, id string) (string, string) {
		got := s.get("balances?account.id="+id+"&timestamp="+when.String(), http.StatusOK)
		rows := got["balances"].([]any)
		if len(rows) == 0 {
			return text(got["timestamp"]), ""
		}
		return text(got["timestamp"]), text(rows[0].(map[string]any)["balance"])
	}
	before := hedera.FromNanos(s.native.Consensus.UnixNano() - 50)
	if when, balance := at(before, s.hollowID.String()); balance != "" || when != text(before.String()) {
		t.Errorf("before it exists: %s at %s", balance, when)
	}
	if when, balance := at(s.native.Consensus, s.hollowID.String()); balance != "500000000" || when != text(s.native.Consensus.String()) {
		t.Errorf("when it exists: %s at %s", balance, when)
	}
	if when, balance := at(hedera.Timestamp{Seconds: 1}, "0.0.2"); when != "null" || balance != "" {
		t.Errorf("before the beginning: %s at %s", balance, when)
	}
	if when, _ := at(hedera.Timestamp{Seconds: 9_999_999_999}, "0.0.2"); when != text(s.ledger.View().Time().String()) {
		t.Errorf("after the end: %s", when)
	}
	if rows := s.list("balances?limit=3", "balances"); text(rows[len(rows)-1]["account"]) != `"0.0.2"` {
		t.Errorf("balances do not descend: %s", text(column(rows, "account")))
	}
	if rows := s.list("balances?account.balance=500000000", "balances"); len(rows) != 1 {
		t.Errorf("by balance: %s", text(rows))
	}
}

// Amounts beyond 2⁵³ are written as the integers they are.
func TestLargeIntegers(t *testing.T) {
	s := newScene(t)
	treasury, _ := s.ledger.View().Account(hedera.Entity(2))
	if treasury.Balance < 1<<53 {
		t.Fatalf("the treasury has only %d", treasury.Balance)
	}
	body := string(s.do(http.MethodGet, "/api/v1/accounts/0.0.2?transactions=false", "").body)
	if want := fmt.Sprintf(`"balance":%d,`, treasury.Balance); !strings.Contains(body, want) {
		t.Errorf("no %s in %s", want, body)
	}
	to := account(1).EVMAddress()
	rec := s.network.call(0, &types.DynamicFeeTx{To: &to, Value: weibar(123_456_789), Gas: 21_000})
	s.mustSucceed(rec)
	body = string(s.do(http.MethodGet, "/api/v1/contracts/results/"+rec.EthereumHash.Hex()+"?hbar=false", "").body)
	if !strings.Contains(body, `"amount":1234567890000000000,`) {
		t.Errorf("no weibar amount in %s", body)
	}
}

func TestContract(t *testing.T) {
	s := newScene(t)
	for _, name := range []string{s.contract.Hex(), s.contractID.String(), s.contractID.LongZero().Hex()} {
		got := s.get("contracts/"+name, http.StatusOK)
		for field, want := range map[string]string{
			"contract_id": text(s.contractID.String()), "evm_address": text(strings.ToLower(s.contract.Hex())),
			"runtime_bytecode": text(hexOf(counterCode())), "bytecode": text(hexOf(initCode(counterCode()))),
			"nonce": "1", "deleted": "false", "file_id": "null", "created_timestamp": text(s.creation.Consensus.String()),
		} {
			if text(got[field]) != want {
				t.Errorf("%s: %s is %s, want %s", name, field, text(got[field]), want)
			}
		}
	}
	before := hedera.FromNanos(s.creation.Consensus.UnixNano() - 1).String()
	s.get("contracts/"+s.contract.Hex()+"?timestamp="+before, http.StatusNotFound)
	s.get("contracts/"+s.contract.Hex()+"?timestamp="+s.creation.Consensus.String(), http.StatusOK)
	s.get("contracts/"+account(0).EVMAddress().Hex(), http.StatusNotFound)
	s.get("contracts/0x9999999999999999999999999999999999999999", http.StatusNotFound)
	rows := s.list("contracts", "contracts")
	if len(rows) != 4 || rows[0]["bytecode"] != nil {
		t.Errorf("contracts: %s", text(column(rows, "contract_id")))
	}
	made := s.list("contracts?contract.id="+s.internalMake.Result.Created[0].String(), "contracts")
	if len(made) != 1 {
		t.Errorf("the contract made by a contract: %s", text(made))
	}
}

func TestState(t *testing.T) {
	s := newScene(t)
	zero, five := "0x"+zeros(64), "0x"+zeros(63)+"5"
	again := s.network.call(0, &types.DynamicFeeTx{To: &s.contract}) // counter 2, last value 0
	s.mustSucceed(again)
	path := "contracts/" + s.contract.Hex() + "/state"
	words := func(query string) string {
		var out []string
		for _, row := range s.list(path+query, "state") {
			out = append(out, row["slot"].(string)[62:]+"="+row["value"].(string)[62:])
		}
		return strings.Join(out, " ")
	}
	for query, want := range map[string]string{
		"":                                "0000=0002 0005=0000", // a word that is zero again stays
		"?order=desc":                     "0005=0000 0000=0002",
		"?slot=0x5":                       "0005=0000",
		"?slot=" + five + "&slot=" + zero: "0000=0002 0005=0000",
		"?slot=gt:0x0":                    "0005=0000",
		"?slot=lt:5":                      "0000=0002",
		"?slot=gte:0x1&slot=lte:0x4":      "",
		"?slot=lt:0x0":                    "",
		"?slot=0x7":                       "",
		"?timestamp=" + s.call.Consensus.String():                          "0000=0001 0005=0002",
		"?timestamp=lt:" + again.Consensus.String() + "&slot=0x0":          "0000=0001",
		"?timestamp=" + s.creation.Consensus.String():                      "",
		"?timestamp=gte:" + again.Consensus.String() + "&slot=0x0&limit=1": "0000=0002",
		"?timestamp=gt:" + again.Consensus.String():                        "",
	} {
		if got := strings.ReplaceAll(words(query), "0x", ""); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	row := s.list(path+"?slot=0x0", "state")[0]
	if text(row["timestamp"]) != text(again.Consensus.String()) || text(row["contract_id"]) != text(s.contractID.String()) ||
		text(row["address"]) != text(strings.ToLower(s.contract.Hex())) {
		t.Errorf("row %s", text(row))
	}
	if rows := s.list("contracts/0x9999999999999999999999999999999999999999/state", "state"); len(rows) != 0 {
		t.Errorf("of nobody: %s", text(rows))
	}
	s.get(path+"?timestamp=ne:1", http.StatusBadRequest)
	s.get(path+"?slot=ne:0x1", http.StatusBadRequest)
	s.get(path+"?slot="+zeros(65), http.StatusBadRequest)
}

func TestTransaction(t *testing.T) {
	s := newScene(t)
	rec := s.native
	got := s.list("transactions/"+rec.ID.Mirror()+"?nonce=0", "transactions")
	if len(got) != 1 {
		t.Fatalf("%d rows: %s", len(got), text(got))
	}
	var transfers []string
	for _, m := range rec.Transfers {
		transfers = append(transfers, fmt.Sprintf(`{"account":%q,"amount":%d,"is_approval":false}`, m.Account, m.Amount))
	}
	want := fmt.Sprintf(`{
		"assessed_custom_fees": [], "batch_key": null, "bytes": null, "charged_tx_fee": %d, "consensus_timestamp": %q,
		"entity_id": null, "high_volume": false, "high_volume_pricing_multiplier": null, "max_custom_fees": [],
		"max_fee": "1000000000", "memo_base64": "R3LDvMOfZQ==", "name": "CRYPTOTRANSFER", "nft_transfers": [],
		"node": "0.0.3", "nonce": 0, "parent_consensus_timestamp": null, "result": "SUCCESS", "scheduled": false,
		"staking_reward_transfers": [], "token_transfers": [], "transaction_hash": %q, "transaction_id": %q,
		"transfers": [%s], "valid_duration_seconds": "120", "valid_start_timestamp": %q
	}`, rec.Fee, rec.Consensus, base64.StdEncoding.EncodeToString(rec.Hash[:]), rec.ID.Mirror(),
		strings.Join(transfers, ","), rec.ID.ValidStart)
	if diff := cmp.Diff(normal(t, want), normal(t, text(got[0]))); diff != "" {
		t.Errorf("transaction (-want +got):\n%s", diff)
	}
}

// A transaction comes with its children, in the order of their times, under every
// name it has.
func TestWaysToATransaction(t *testing.T) {
	s := newScene(t)
	rec := s.internalMake
	if len(rec.Children) != 1 {
		t.Fatalf("%d children", len(rec.Children))
	}
	want := []any{rec.Consensus.String(), rec.Children[0].Consensus.String()}
	for _, name := range []string{
		rec.ID.Mirror(), rec.ID.String(), hexOf(rec.Hash[:]),
		url.PathEscape(base64.StdEncoding.EncodeToString(rec.Hash[:])), base64.URLEncoding.EncodeToString(rec.Hash[:]),
	} {
		got := s.get("transactions/"+name, http.StatusOK)
		var times []any
		for _, row := range got["transactions"].([]any) {
			times = append(times, row.(map[string]any)["consensus_timestamp"])
		}
		if diff := cmp.Diff(want, times); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	child := s.get("transactions/"+rec.ID.Mirror()+"?nonce=1", http.StatusOK)["transactions"].([]any)[0].(map[string]any)
	for field, want := range map[string]string{
		"name": `"CONTRACTCREATEINSTANCE"`, "nonce": "1", "parent_consensus_timestamp": text(rec.Consensus.String()),
		"entity_id": text(rec.Result.Created[0].String()), "transaction_id": text(rec.ID.Mirror()),
	} {
		if text(child[field]) != want {
			t.Errorf("child: %s is %s, want %s", field, text(child[field]), want)
		}
	}
	for name, status := range map[string]int{
		"0.0.2-1-1": http.StatusNotFound, hexOf(make([]byte, 48)): http.StatusNotFound,
		rec.ID.Mirror() + "?nonce=7": http.StatusNotFound, rec.ID.Mirror() + "?scheduled=true": http.StatusNotFound,
		"0.0.2-1": http.StatusBadRequest, "0x1234": http.StatusBadRequest, rec.ID.Mirror() + "?nonce=x": http.StatusBadRequest,
	} {
		s.get("transactions/"+name, status)
	}
}

func TestTransactionFilters(t *testing.T) {
	s := newScene(t)
	for path, want := range map[string][]*ledger.Record{
		"transactions?transactiontype=cryptotransfer":                     {s.native},
		"transactions?result=fail&order=asc":                              {s.reverted, s.wrongNonce},
		"transactions?account.id=" + s.hollowID.String():                  {s.native},
		"transactions?account.id=" + s.hollowID.String() + "&type=debit":  {},
		"transactions?account.id=" + s.hollowID.String() + "&type=credit": {s.native},
		"transactions?account.id=0.0.1003&type=credit":                    {s.transfer},
		"transactions?timestamp=" + s.call.Consensus.String():             {s.call},
		"transactions?timestamp=lt:" + s.transfer.Consensus.String():      {},
	} {
		var times []any
		for _, rec := range want {
			times = append(times, rec.Consensus.String())
		}
		if diff := cmp.Diff(times, column(s.list(path, "transactions"), "consensus_timestamp")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func TestBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newSlowNetwork(t)
		to := account(1).EVMAddress()
		for range 3 {
			n.mustSucceed(n.call(0, &types.DynamicFeeTx{To: &to, Gas: 21_000}))
			n.mustSucceed(n.transfer(accountID(1005), 1))
			n.closeBlock()
		}
		blocks := n.ledger.View().Blocks()
		if len(blocks) != 4 {
			t.Fatalf("%d blocks", len(blocks))
		}
		b := blocks[2]
		want := fmt.Sprintf(`{
			"count": 2, "gas_used": 21000, "hapi_version": "0.75.0", "hash": %q, "logs_bloom": "0x%s",
			"name": "%s.rcd.gz", "number": 2, "previous_hash": %q, "size": %d, "timestamp": {"from": %q, "to": %q}
		}`, hexOf(b.Hash[:]), zeros(512), b.From.Time().Format("2006-01-02T15_04_05.000000000Z"),
			hexOf(blocks[1].Hash[:]), b.Size, b.From, b.To)
		for _, name := range []string{"2", hexOf(b.Hash[:]), hexOf(b.Hash[:32]), strings.ToUpper(hexOf(b.Hash[:])[2:])} {
			if diff := cmp.Diff(normal(t, want), normal(t, text(n.get("blocks/"+name, http.StatusOK)))); diff != "" {
				t.Errorf("blocks/%s (-want +got):\n%s", name, diff)
			}
		}
		first := n.get("blocks/0", http.StatusOK)
		if text(first["previous_hash"]) != `"0x`+zeros(96)+`"` || text(first["count"]) != "0" {
			t.Errorf("block 0: %s", text(first))
		}
		for query, want := range map[string]string{
			"":          "[3,2,1,0]",
			"order=asc": "[0,1,2,3]",
			"block.number=gte:1&block.number=lte:2&limit=100&order=asc": "[1,2]",
			"block.number=gt:0x1":                                   "[3,2]",
			"block.number=2":                                        "[2]",
			"block.number=2&block.number=0&limit=1":                 "[2,0]",
			"block.number=gt:3":                                     "null",
			"timestamp=" + b.To.String():                            "[2]",
			"timestamp=gt:" + b.To.String():                         "[3]",
			"timestamp=lt:" + b.To.String() + "&order=asc&limit=1":  "[0,1]",
			"timestamp=gte:" + b.To.String() + "&block.number=lt:3": "[2]",
		} {
			if got := text(column(n.list("blocks?"+query, "blocks"), "number")); got != want {
				t.Errorf("%s: %s, want %s", query, got, want)
			}
		}
		for name, status := range map[string]int{
			"4": http.StatusNotFound, hexOf(make([]byte, 32)): http.StatusNotFound,
			"0x1": http.StatusBadRequest, "-1": http.StatusBadRequest, "latest": http.StatusBadRequest, "1?limit=1": http.StatusBadRequest,
		} {
			n.get("blocks/"+name, status)
		}
	})
}

func TestNetwork(t *testing.T) {
	s := newScene(t)
	at := s.call.Consensus.String()
	for path, want := range map[string]string{
		"network/fees?timestamp=" + at: `{"fees":[{"gas":71,"transaction_type":"ContractCall"},{"gas":71,"transaction_type":"ContractCreate"},
			{"gas":71,"transaction_type":"EthereumTransaction"}],"timestamp":"` + at + `"}`,
		"network/exchangerate?timestamp=" + at: `{"current_rate":{"cent_equivalent":12,"expiration_time":4102444800,"hbar_equivalent":1},
			"next_rate":{"cent_equivalent":12,"expiration_time":4102444800,"hbar_equivalent":1},"timestamp":"` + at + `"}`,
	} {
		if diff := cmp.Diff(normal(t, want), normal(t, text(s.get(path, http.StatusOK)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	total := s.get("network/supply", http.StatusOK)
	if text(total["total_supply"]) != `"5000000000000000000"` {
		t.Errorf("supply %s", text(total))
	}
	r := s.do(http.MethodGet, "/api/v1/network/supply?q=totalcoins", "")
	if string(r.body) != "50000000000.00000000" || !strings.HasPrefix(r.header.Get("Content-Type"), "text/plain") {
		t.Errorf("total coins: %s %s", r.header.Get("Content-Type"), r.body)
	}
	r = s.do(http.MethodGet, "/api/v1/network/supply?q=circulating", "")
	released := integer(t, normal(t, strings.ReplaceAll(text(total["released_supply"]), `"`, "")))
	if string(r.body) != fmt.Sprintf("%d.%08d", released/1e8, released%1e8) {
		t.Errorf("circulating: %s, released %d", r.body, released)
	}
	nodes := s.list("network/nodes?limit=1", "nodes")
	if text(column(nodes, "node_account_id")) != `["0.0.3","0.0.4"]` || text(nodes[0]["service_endpoints"]) != `[{"domain_name":"","ip_address_v4":"127.0.0.1","port":50211}]` {
		t.Errorf("nodes %s", text(nodes))
	}
	if rows := s.list("network/nodes?node.id=1&file.id=0.0.101", "nodes"); len(rows) != 1 || text(rows[0]["file_id"]) != `"0.0.101"` {
		t.Errorf("node 1: %s", text(rows))
	}
}
