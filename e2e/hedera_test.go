package e2e

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/google/go-cmp/cmp"
)

var entityID = regexp.MustCompile(`^0\.0\.[1-9]\d{3,}$`)

// TestHederaSDK lets the Hedera SDK and the relay look at the same chain. Each
// part has a payer of its own, because the parts run side by side.
func TestHederaSDK(t *testing.T) {
	t.Parallel()
	n := startDev(t, nil)
	recipient := n.Accounts[len(n.Accounts)-1]
	input := func(task string, payer account) map[string]any {
		return map[string]any{
			"task": task, "rpc": n.RPC, "consensus": n.Consensus, "chainId": chainID, "privateKey": payer.PrivateKey,
			"operator":  map[string]any{"id": payer.ID, "privateKey": payer.PrivateKey},
			"recipient": recipient.ID, "recipientAddress": recipient.Address, "artifact": contract(t, "Journal"),
		}
	}

	t.Run("transfer", func(t *testing.T) {
		t.Parallel()
		payer := n.Accounts[0]
		var got struct{ Status, Received, Recorded, Memo, Fee, Payer string }
		script(t, "hedera", input("transfer", payer), &got)
		expect(t, got.Status, "SUCCESS")
		expect(t, got.Recorded, "250000000")
		expect(t, got.Memo, "a transfer")
		expect(t, got.Payer, payer.ID)
		if received := decimal(t, got.Received).Int64(); received < 250_000_000 {
			t.Errorf("the recipient received %d tinybars", received)
		}
		if decimal(t, got.Fee).Sign() < 0 {
			t.Errorf("fee %s", got.Fee)
		}
	})

	t.Run("create account", func(t *testing.T) {
		t.Parallel()
		var got struct{ Status, Account, Memo, Initial, Address, InfoAddress, OwnStatus, SeenByRelay string }
		script(t, "hedera", input("create", n.Accounts[1]), &got)
		expect(t, got.Status, "SUCCESS")
		expect(t, got.OwnStatus, "SUCCESS")
		expect(t, got.Memo, "made by a test")
		expect(t, got.Initial, "2000000000")
		expect(t, got.InfoAddress, got.Address)
		if !entityID.MatchString(got.Account) {
			t.Errorf("account id %q", got.Account)
		}
		// 20 hbar less the transfer of 1 and its fee.
		seen := decimal(t, got.SeenByRelay)
		if most := decimal(t, "19000000000000000000"); seen.Sign() <= 0 || seen.Cmp(most) > 0 {
			t.Errorf("the relay sees %s weibar, want at most %s", seen, most)
		}
	})

	t.Run("hollow account", func(t *testing.T) {
		t.Parallel()
		var got struct {
			Status     string
			Recorded   []string
			Children   int
			Funded     string
			SentStatus int
			Completed  bool
		}
		script(t, "hedera", input("hollow", n.Accounts[2]), &got)
		expect(t, got.Status, "SUCCESS")
		expect(t, got.Funded, "10000000000000000000")
		expect(t, got.SentStatus, 1)
		expect(t, got.Completed, true)
		if !strings.Contains(strings.Join(got.Recorded, " "), "1000000000") {
			t.Errorf("the record's transfers %v lack the 10 hbar", got.Recorded)
		}
		if got.Children < 1 {
			t.Error("the record of the account's creation is missing")
		}
	})

	t.Run("Ethereum transaction", func(t *testing.T) {
		t.Parallel()
		var got struct {
			Status, Contract, Hash, RecordHash, RecordGas, RelayGas string
			RelayStatus                                             int
			RelayCode                                               bool
		}
		script(t, "hedera", input("ethereum", n.Accounts[3]), &got)
		expect(t, got.Status, "SUCCESS")
		expect(t, got.RecordHash, got.Hash)
		expect(t, got.RecordGas, got.RelayGas)
		expect(t, got.RelayStatus, 1)
		expect(t, got.RelayCode, true)
		if !entityID.MatchString(got.Contract) {
			t.Errorf("contract id %q", got.Contract)
		}
		if hash, err := hexutil.Decode(got.Hash); err != nil || len(hash) != 32 {
			t.Errorf("hash %q", got.Hash)
		}
	})

	t.Run("wrong nonce", func(t *testing.T) {
		t.Parallel()
		var got struct{ Status string }
		script(t, "hedera", input("wrongNonce", n.Accounts[4]), &got)
		expect(t, got.Status, "WRONG_NONCE")
	})
}

// startServices returns a chain, and the input of a script for a payer of its own.
func startServices(t *testing.T) func(task string, payer int) map[string]any {
	t.Helper()
	n := startDev(t, nil, "--fees") // so that what the SDK offers by itself must be enough
	return func(task string, payer int) map[string]any {
		a := n.Accounts[payer]
		return map[string]any{
			"task": task, "rpc": n.RPC, "consensus": n.Consensus, "mirror": n.Mirror, "topics": n.Topics, "chainId": chainID,
			"operator": map[string]any{"id": a.ID, "privateKey": a.PrivateKey}, "evmKey": a.PrivateKey, "address": a.Address,
		}
	}
}

// TestServices has the Hedera SDK use the network's services: it keeps accounts, tokens, topics and schedules, makes and reads files, creates and
// calls contracts, and reads what came of it through queries and through the mirror node. Contracts and wallets use tokens through the relay.
func TestServices(t *testing.T) {
	t.Parallel()
	chains := map[string]func(string, int) map[string]any{"services": startServices(t), "contracts": startServices(t), "tokens": startServices(t)}
	row := func(name, result string) []any { return []any{name, result, true, true} }
	for name, c := range map[string]struct {
		script, task string
		payer        int
		artifact     string
		want         map[string]any
	}{
		"accounts": {"services", "accounts", 0, "", map[string]any{
			"oneKey": "INVALID_SIGNATURE", "twoKeys": "SUCCESS", "oldKeysOnly": "INVALID_SIGNATURE", "updated": "SUCCESS",
			"approved": "SUCCESS", "drawn": "SUCCESS", "tooMuch": "AMOUNT_EXCEEDS_ALLOWANCE", "deleted": "SUCCESS",
			"memo": "one key", "key": true, "granted": 5e8, "left": 2e8, "balance": 0.0,
		}},
		"NFTs": {"services", "nfts", 2, "", map[string]any{
			"steps": map[string]any{
				"sent": "SUCCESS", "notOwner": "SENDER_DOES_NOT_OWN_NFT_SERIAL_NO", "approved": "SUCCESS", "taken": "SUCCESS",
				"takenUnapproved": "SPENDER_DOES_NOT_HAVE_ALLOWANCE", "approvedAll": "SUCCESS", "takenByAll": "SUCCESS",
				"approvedThird": "SUCCESS", "withdrawn": "SUCCESS", "metadata": "SUCCESS",
				"burnedForeign": "TREASURY_MUST_OWN_BURNED_NFT", "burned": "SUCCESS", "wiped": "SUCCESS",
			},
			"serials": []any{"1", "2", "3", "4"}, "supply": "2", "spender": true, "owner": true, "all": true,
			"owned": []any{1.0}, "metadata": []any{"a", "b", "new", "d"}, "deleted": []any{false, true, false, true},
			"history": []any{"CRYPTOTRANSFER", "CRYPTOTRANSFER", "TOKENMINT"},
		}},
		"topics": {"services", "topics", 4, "", map[string]any{
			"steps": map[string]any{
				"unsigned": "INVALID_SIGNATURE", "updated": "SUCCESS", "open": "SUCCESS", "deleted": "SUCCESS", "tooLate": "INVALID_TOPIC_ID",
			},
			"sequence": "1", "whole": true, "first": "hello", "chunks": []any{"1/3", "2/3", "3/3"}, "last": "anybody", "count": "5",
			"hash": true, "memo": "renamed", "utf8": "hello", "same": true, "gone": true,
		}},
		"subscriptions": {"services", "subscriptions", 4, "", map[string]any{
			"heard": []any{"hello", "whole: true", "later"}, "numbers": []any{"1", "4", "5"}, "two": []any{"hello"}, "hash": true, "between": []any{"hello"},
		}},
		"schedules": {"services", "schedules", 6, "", map[string]any{
			"steps": map[string]any{
				"identical": "IDENTICAL_SCHEDULE_ALREADY_CREATED", "nothingNew": "NO_NEW_VALID_SIGNATURES", "signed": "SUCCESS",
				"again": "SCHEDULE_ALREADY_EXECUTED", "deleted": "SUCCESS", "signedDeleted": "SCHEDULE_ALREADY_DELETED",
				"immutable": "SCHEDULE_IS_IMMUTABLE", "notSchedulable": "SCHEDULED_TRANSACTION_NOT_IN_WHITELIST",
			},
			"signers": 1.0, "pending": true, "memo": "a memo", "scheduled": true, "ref": true, "moved": true, "executed": true,
			"signatures": []any{"ECDSA_SECP256K1", "ED25519"}, "at": true, "listed": []any{1.0, "CRYPTOTRANSFER", true},
			"early": nil, "late": true, "balance": "45 ℏ",
		}},
		"contracts and random numbers": {"services", "contracts", 5, "Journal", map[string]any{
			"steps": map[string]any{
				"updated": "SUCCESS", "immutable": "MODIFYING_IMMUTABLE_CONTRACT", "noObtainer": "OBTAINER_REQUIRED",
				"undeletable": "MODIFYING_IMMUTABLE_CONTRACT", "deleted": "SUCCESS", "again": "CONTRACT_DELETED",
			},
			"memo": "changed", "mirrored": "changed", "associations": 7.0, "bytes": 48.0, "number": true,
		}},
		"airdrops and rejections": {"services", "airdrops", 6, "", map[string]any{
			"steps": map[string]any{
				"empty": "EMPTY_TOKEN_TRANSFER_BODY", "twice": "PENDING_NFT_AIRDROP_ALREADY_EXISTS", "claimUnsigned": "INVALID_SIGNATURE",
				"claimed": "SUCCESS", "claimedTwice": "INVALID_PENDING_AIRDROP_ID", "canceled": "SUCCESS",
				"claimedLate": "INVALID_PENDING_AIRDROP_ID", "rejectUnsigned": "INVALID_SIGNATURE", "paused": "SUCCESS",
				"rejectPaused": "TOKEN_IS_PAUSED", "unpaused": "SUCCESS", "rejected": "SUCCESS",
				"rejectedTwice": "INSUFFICIENT_TOKEN_BALANCE", "flow": "SUCCESS", "again": "SUCCESS",
			},
			"before": map[string]any{"open": 10.0, "shut": -1.0, "sender": 990.0}, "claimed": 20.0,
			"outstanding": []any{[]any{20.0, nil}, []any{0.0, 1.0}, []any{0.0, 2.0}}, "rest": 2.0,
			"pending": []any{20.0, 0.0, 0.0}, "moved": "10", "ended": 0.0, "after": []any{0.0, 1000.0},
			"relations": []any{true}, "type": "TOKENREJECT",
			"evm": map[string]any{"held": "7", "logs": []any{1.0, 1.0}, "left": 0.0, "child": "TOKENCLAIMAIRDROP"},
		}},
		"batches": {"services", "batches", 7, "", map[string]any{
			"whole": map[string]any{"status": "SUCCESS", "records": []any{
				row("CRYPTOTRANSFER", "SUCCESS"), row("CRYPTOTRANSFER", "SUCCESS"), row("CRYPTOCREATEACCOUNT", "SUCCESS"),
			}},
			"broken": map[string]any{"status": "INNER_TRANSACTION_FAILED", "records": []any{
				row("CRYPTOTRANSFER", "REVERTED_SUCCESS"), row("CRYPTOTRANSFER", "INSUFFICIENT_TOKEN_BALANCE"),
			}},
			"unsigned": "INVALID_SIGNATURE", "empty": "BATCH_LIST_EMPTY", "after": 20.0, "left": 20.0, "account": true,
		}},
		"the account service": {"services", "accountService", 8, "", map[string]any{
			"steps": []any{1.0, 1.0, 1.0}, "allowance": []any{"22", "5000"}, "atAccount": []any{"22", "70"}, "raw": []any{true, false},
			"whole": []any{"22", "true"}, "granted": 5000.0, "lower": 70.0, "open": -1.0, "info": "-1",
		}},
		"the network's files": {"services", "files", 9, "", map[string]any{"gas": "852000", "same": true, "sizes": []any{true, true}}},
		"custom fees": {"services", "fees", 3, "", map[string]any{
			"steps": map[string]any{
				"fromTreasury": "SUCCESS", "giftUnsigned": "INVALID_SIGNATURE", "gift": "SUCCESS", "schedule": "SUCCESS",
			},
			"after":    map[string]any{"alice": 800.0, "bob": 180.0, "collector": 20.0},
			"assessed": []any{"100000000", "20"}, "mirrored": []any{"100000000", "20"},
			"royalty": []any{"200000000"}, "free": 0.0,
		}},
		"files": {"contracts", "files", 0, "Vault", map[string]any{
			"steps": map[string]any{
				"unsigned": "INVALID_SIGNATURE", "appended": "SUCCESS", "renamed": "SUCCESS", "chunks": "SUCCESS", "immutable": "UNAUTHORIZED",
				"undeletable": "UNAUTHORIZED", "deleted": "SUCCESS", "again": "FILE_DELETED", "readDeleted": "SUCCESS",
			},
			"first": "hello", "second": "hello world", "whole": true, "size": "10011", "memo": "long", "keys": 1.0, "gone": true, "fixed": "for ever",
		}},
		"calls": {"contracts", "calls", 1, "Vault", map[string]any{
			"steps": map[string]any{
				"failed": "CONTRACT_REVERT_EXECUTED", "localFailure": "CONTRACT_REVERT_EXECUTED", "poor": "INSUFFICIENT_GAS",
				"permanent": "PERMANENT_REMOVAL_REQUIRES_SYSTEM_INITIATION", "deleted": "SUCCESS", "tooLate": "CONTRACT_DELETED",
			},
			"before": "41", "after": "42", "other": "7", "returned": "42", "logs": 1.0, "gas": true, "paid": "SUCCESS", "balance": "3 ℏ", "memo": "from a file", "same": true,
			"reason": "0x08c379a0000000000000000000000000000000000000000000000000000000000000002000000000000000000000000000000000000000000000000000000000000000096e6f7420746f6461790000000000000000000000000000000000000000000000",
		}},
		"queries": {"contracts", "queries", 2, "Vault", map[string]any{
			"cost": true, "version": true, "nodes": []any{"0.0.3"}, "first": "SUCCESS", "second": "DUPLICATE_TRANSACTION", "children": 1.0, "created": true,
			"records": 1.0, "duplicates": 0.0,
		}},
		"allowances": {"contracts", "allowances", 3, "Vault", map[string]any{
			"steps": map[string]any{"approved": "SUCCESS", "spent": "SUCCESS", "tooMuch": "AMOUNT_EXCEEDS_ALLOWANCE", "byKey": "SUCCESS", "byNobody": "INVALID_SIGNATURE"},
			"keys":  3.0,
		}},
		"a token in the EVM": {"tokens", "facade", 0, "", map[string]any{
			"described": "Facade", "symbol": "FCD", "decimals": 3.0, "supply": "10005", "before": false, "after": true,
			"unassociated": "CALL_EXCEPTION", "associated": 1.0, "owner": "9171", "held": "834", "allowance": "600", "hapi": "9171",
			"events": []any{"Transfer 1234", "Approval 1000", "Transfer 400"}, "fromSender": true, "approvalLogs": 1.0,
			"synthetic": []any{"Transfer 5"}, "syntheticReceipt": 1.0, "code": "0xef01000000000000000000000000000000000000000167",
			"minted": "10005", "tooMuch": "CALL_EXCEPTION",
		}},
		"NFTs in the EVM": {"tokens", "collection", 1, "", map[string]any{
			"uri": "ipfs://a", "approved": true, "owner": true, "notAllowed": "CALL_EXCEPTION", "all": true, "held": "2", "serial": "1",
			"cleared": "0x0000000000000000000000000000000000000000",
		}},
		"a contract with tokens": {"tokens", "user", 2, "TokenUser", map[string]any{
			"codes": map[string]any{
				"unpaid": 9.0, "created": 22.0, "unassociated": 184.0, "associatedForOther": 326.0, "sent": 22.0, "caught": -1.0,
				"wiped": 22.0, "frozen": 22.0, "sentFrozen": 165.0, "createdNFT": 22.0,
			},
			"reverted": "CALL_EXCEPTION", "pulledTooMuch": "CALL_EXCEPTION", "results": []any{"SUCCESS", "REVERTED_SUCCESS"},
			"child": []any{"TOKENMINT", "SUCCESS", 1.0}, "held": "9", "supply": "1049", "name": "Made by a contract",
			"treasury": "1040", "serial": "1", "codeSize": "23", "byDelegate": false, "byStatic": false,
		}},
		"a constructor with tokens": {"tokens", "maker", 3, "TokenMaker", map[string]any{"code": 22.0, "held": "77"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			input := chains[c.script]
			if c.task == "schedules" {
				input = startServices(t) // a chain of its own, since it moves the clock
			}
			in := input(c.task, c.payer)
			if c.script == "tokens" {
				in["other"] = input(c.task, c.payer+5)["evmKey"]
			}
			if c.artifact != "" {
				in["artifact"] = contract(t, c.artifact)
			}
			var got map[string]any
			script(t, c.script, in, &got)
			same(t, got, c.want)
		})
	}
	t.Run("fungible token", func(t *testing.T) {
		t.Parallel()
		var got struct {
			Steps              map[string]any
			Supply, Name       string
			Decimals           int
			Treasury, Held     int64
			Mirrored, Relation map[string]any
			Gone               bool
			Balances           []int64
			Listed             int64
		}
		script(t, "services", chains["services"]("fungible", 1), &got)
		same(t, got.Steps, map[string]any{
			"notAssociated": "TOKEN_NOT_ASSOCIATED_TO_ACCOUNT", "associated": "SUCCESS",
			"associatedTwice": "TOKEN_ALREADY_ASSOCIATED_TO_ACCOUNT", "withoutKyc": "ACCOUNT_KYC_NOT_GRANTED_FOR_TOKEN",
			"kyc": "SUCCESS", "sent": "SUCCESS", "frozen": "SUCCESS", "sentFrozen": "ACCOUNT_FROZEN_FOR_TOKEN",
			"unfrozen": "SUCCESS", "paused": "SUCCESS", "sentPaused": "TOKEN_IS_PAUSED", "unpaused": "SUCCESS",
			"minted": "SUCCESS", "mintedTooMuch": "TOKEN_MAX_SUPPLY_REACHED", "burned": "SUCCESS", "wiped": "SUCCESS",
			"updated": "SUCCESS", "revoked": "SUCCESS", "sentRevoked": "ACCOUNT_KYC_NOT_GRANTED_FOR_TOKEN",
			"dissociatedWithBalance": "TRANSACTION_REQUIRES_ZERO_TOKEN_BALANCES",
			"deletedHolder":          "TRANSACTION_REQUIRES_ZERO_TOKEN_BALANCES",
			"automatic":              "ACCOUNT_KYC_NOT_GRANTED_FOR_TOKEN", "deleted": "SUCCESS", "sentDeleted": "TOKEN_WAS_DELETED",
		})
		// 1000 + 500 - 200 - 100, of which the holder has 300 - 100.
		if got.Supply != "1200" || got.Treasury != 1000 || got.Held != 200 || got.Listed != 200 {
			t.Errorf("supply %s, treasury %d, held %d, listed %d", got.Supply, got.Treasury, got.Held, got.Listed)
		}
		same(t, got.Balances, []int64{1000, 200})
		expect(t, got.Name, "Renamed")
		expect(t, got.Mirrored["total_supply"], any("1200"))
		expect(t, got.Mirrored["supply_type"], any("FINITE"))
		expect(t, got.Mirrored["memo"], any("new memo"))
		expect(t, got.Mirrored["pause_status"], any("UNPAUSED"))
		expect(t, got.Relation["freeze_status"], any("UNFROZEN"))
		expect(t, got.Gone, true)
	})
}

func same[T any](t *testing.T, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestStateHasOneProcess: a second process is refused while the first one has the file, which a process
// that was killed has no longer.
func TestStateHasOneProcess(t *testing.T) {
	flags := []string{"devnet", "--consensus", "127.0.0.1:0", "--mirror", "127.0.0.1:0", "--json", "--state", filepath.Join(t.TempDir(), "state")}
	var ready struct{ Mirror string }
	first := start(t, nil, flags...)
	first.ReadReady(&ready)
	second := start(t, nil, flags...)
	if code := second.Exit(); code != 1 || !second.Log.Has("another process uses it") {
		t.Errorf("the second one ended with %d\n%s", code, second.Log)
	}
	first.Kill()
	start(t, nil, flags...).ReadReady(&ready)
}
