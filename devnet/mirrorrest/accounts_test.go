package mirrorrest_test

import (
	"encoding/base32"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"lockstep/devnet/ledger"
	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/history"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
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

// Whom an account or a contract stakes to, and since which day, in whichever way it was said.
func TestStakes(t *testing.T) {
	n := newNetwork(t, ledger.Config{})
	today := hedera.Timestamp{Seconds: n.genesis.Seconds / 86400 * 86400}.String()
	none, node, treasury := `[false null null null]`, fmt.Sprintf(`[false null 0 %q]`, today), `[true "0.0.2" null null]`
	declines := fmt.Sprintf(`[true null 0 %q]`, today)
	staking := func(id hedera.ID) string {
		a := n.get("accounts/"+id.String()+"?transactions=false", http.StatusOK)
		var members []string
		for _, name := range []string{"decline_reward", "staked_account_id", "staked_node_id", "stake_period_start"} {
			members = append(members, text(a[name]))
		}
		return fmt.Sprint(members)
	}
	handle := func(body *hapi.TransactionBody) *history.Record {
		t.Helper()
		rec := n.mustSucceed(n.handle(body, nil))
		return rec
	}
	expect := func(what string, id hedera.ID, want string) {
		t.Helper()
		if got := staking(id); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	const period = 7_776_000
	yes := wrapperspb.Bool(true)

	account := handle(core.BodyOf(&hapi.CryptoCreateTransactionBody{
		Key: operatorKey(n), AutoRenewPeriod: &hapi.Duration{Seconds: period}, StakedId: &hapi.CryptoCreateTransactionBody_StakedNodeId{},
	})).Account
	expect("an account made with a node", account, node)
	plain := handle(core.BodyOf(&hapi.CryptoCreateTransactionBody{
		Key: operatorKey(n), AutoRenewPeriod: &hapi.Duration{Seconds: period}, DeclineReward: true, StakedId: &hapi.CryptoCreateTransactionBody_StakedAccountId{StakedAccountId: accountID(2)},
	})).Account
	expect("an account made with another", plain, treasury)
	for _, step := range []struct {
		what string
		body *hapi.CryptoUpdateTransactionBody
		want string
	}{
		{"it declines rewards", &hapi.CryptoUpdateTransactionBody{DeclineReward: yes}, declines},
		{"it turns to an account", &hapi.CryptoUpdateTransactionBody{StakedId: &hapi.CryptoUpdateTransactionBody_StakedAccountId{StakedAccountId: accountID(2)}}, treasury},
		{"and to a node again", &hapi.CryptoUpdateTransactionBody{StakedId: &hapi.CryptoUpdateTransactionBody_StakedNodeId{}}, declines},
		{"it ends its stake", &hapi.CryptoUpdateTransactionBody{DeclineReward: wrapperspb.Bool(false), StakedId: &hapi.CryptoUpdateTransactionBody_StakedNodeId{StakedNodeId: -1}}, none},
	} {
		step.body.AccountIDToUpdate = accountID(account.Num)
		handle(core.BodyOf(step.body))
		expect(step.what, account, step.want)
	}

	contract := handle(core.BodyOf(&hapi.ContractCreateTransactionBody{
		Gas: 1_000_000, AutoRenewPeriod: &hapi.Duration{Seconds: period}, AdminKey: operatorKey(n), DeclineReward: true,
		InitcodeSource: &hapi.ContractCreateTransactionBody_Initcode{Initcode: initCode(counterCode())}, StakedId: &hapi.ContractCreateTransactionBody_StakedNodeId{},
	})).ContractID
	expect("a contract made with a node", contract, declines)
	handle(core.BodyOf(&hapi.ContractUpdateTransactionBody{
		ContractID: &hapi.ContractID{Contract: &hapi.ContractID_ContractNum{ContractNum: contract.Num}}, StakedId: &hapi.ContractUpdateTransactionBody_StakedAccountId{StakedAccountId: accountID(2)},
	}))
	expect("the contract turns to an account", contract, treasury)
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
		"0.0.1001": http.StatusNotFound, "1.0.1002": http.StatusNotFound, "0.7.1002": http.StatusNotFound,
		"0x9999999999999999999999999999999999999999": http.StatusNotFound, "AAAA": http.StatusNotFound,
		"0.0.x": http.StatusBadRequest, "0x12": http.StatusBadRequest, "0.0.0.1": http.StatusBadRequest, "a-b": http.StatusBadRequest,
	} {
		s.get("accounts/"+name, status)
	}
}

func TestHollowAccount(t *testing.T) {
	s := newScene(t)
	got := s.get("accounts/"+s.hollow.Hex(), http.StatusOK)
	s.fields("a hollow account", got, map[string]string{
		"account": text(s.hollowID.String()), "key": "null", "ethereum_nonce": "0",
		"evm_address": text(strings.ToLower(s.hollow.Hex())), "max_automatic_token_associations": "-1",
	})
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
	at := func(r *history.Record) any { return r.Consensus.String() }
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
	der := "accounts?limit=100&account.id=lte:0.0.2&account.publickey=302a300506032b65700321000aa8e21064c61eab86e2a9c164565b4e7a9a4146106e0a6cd03a8c395a110e92"
	if rows := s.list(der, "accounts"); len(rows) != 2 || text(rows[1]["account"]) != `"0.0.2"` {
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
	if rows := s.list("balances?limit=100", "balances"); text(rows[len(rows)-1]["account"]) != `"0.0.1"` {
		t.Errorf("balances do not descend: %s", text(column(rows, "account")))
	}
	if rows := s.list("balances?account.balance=500000000", "balances"); len(rows) != 1 {
		t.Errorf("by balance: %s", text(rows))
	}
}
