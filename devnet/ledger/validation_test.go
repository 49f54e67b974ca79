package ledger

import (
	"math"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/core/vm/program"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// judged is what node and consensus make of a transaction that each of the first five development accounts signs.
func (r *rig) judged(m proto.Message) hedera.Status {
	r.t.Helper()
	body := core.BodyOf(m)
	if status := r.PureCheck(body); status != okay {
		return status
	}
	return r.submit(dev(r.t, 0).id, body, dev(r.t, 0).key, dev(r.t, 1).key, dev(r.t, 2).key, dev(r.t, 3).key, dev(r.t, 4).key).Status
}

// verdict is a transaction and what becomes of it.
type verdict struct {
	name string
	of   proto.Message
	want hedera.Status
}

func (r *rig) judge(list []verdict) {
	r.t.Helper()
	for _, v := range list {
		if got := r.judged(v.of); got != v.want {
			r.t.Errorf("%s: %s, want %s", v.name, got, v.want)
		}
	}
}

// deletedAccount is the account of a development key that was deleted.
func (r *rig) deletedAccount() party {
	r.t.Helper()
	gone := r.account(dev(r.t, 4), func(*hapi.CryptoCreateTransactionBody) {})
	if got := r.judged(&hapi.CryptoDeleteTransactionBody{DeleteAccountID: gone.id.AccountID(), TransferAccountID: dev(r.t, 0).id.AccountID()}); got != okay {
		r.t.Fatal(got)
	}
	return gone
}

var (
	longMemo = strings.Repeat("m", 101)
	nobody   = &hapi.AccountID{Account: &hapi.AccountID_AccountNum{AccountNum: 0}}
	unknown  = hedera.Entity(9_999).AccountID()
)

func seconds(n int64) *hapi.Duration { return &hapi.Duration{Seconds: n} }

// after is a time so many seconds after what will be about now for consensus.
func (r *rig) after(n int64) *hapi.Timestamp {
	return &hapi.Timestamp{Seconds: r.Now().Unix() + n}
}

func TestAccountValidation(t *testing.T) {
	r := newRig(t, Config{})
	owner := dev(t, 0)
	me, gone := owner.id.AccountID(), r.deletedAccount()
	key, endless := publicKey(owner), &hapi.Key{}
	for k, i := endless, 0; i < hapikey.MaxDepth+2; i++ {
		inner := &hapi.Key{}
		k.Key = &hapi.Key_KeyList{KeyList: &hapi.KeyList{Keys: []*hapi.Key{inner}}}
		k = inner
	}
	created := func(edit func(*hapi.CryptoCreateTransactionBody)) proto.Message {
		return create(func(b *hapi.CryptoCreateTransactionBody) { b.Key = key; edit(b) }).GetCryptoCreateAccount()
	}
	updated := func(b *hapi.CryptoUpdateTransactionBody) proto.Message {
		b.AccountIDToUpdate = me
		return b
	}
	slots := func(n int32) proto.Message {
		return updated(&hapi.CryptoUpdateTransactionBody{MaxAutomaticTokenAssociations: wrapperspb.Int32(n)})
	}
	r.judge([]verdict{
		{"a period of zero", created(func(b *hapi.CryptoCreateTransactionBody) { b.AutoRenewPeriod = seconds(0) }), hapi.ResponseCodeEnum_INVALID_RENEWAL_PERIOD},
		{"a short period", created(func(b *hapi.CryptoCreateTransactionBody) { b.AutoRenewPeriod = seconds(2_591_999) }), hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE},
		{"a long period", created(func(b *hapi.CryptoCreateTransactionBody) { b.AutoRenewPeriod = seconds(8_000_002) }), hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE},
		{"-2 slots", created(func(b *hapi.CryptoCreateTransactionBody) { b.MaxAutomaticTokenAssociations = -2 }), hapi.ResponseCodeEnum_INVALID_MAX_AUTO_ASSOCIATIONS},
		{"5,001 slots", created(func(b *hapi.CryptoCreateTransactionBody) { b.MaxAutomaticTokenAssociations = 5_001 }), hapi.ResponseCodeEnum_INVALID_MAX_AUTO_ASSOCIATIONS},
		{"a long memo", created(func(b *hapi.CryptoCreateTransactionBody) { b.Memo = longMemo }), hapi.ResponseCodeEnum_MEMO_TOO_LONG},
		{"a short key", created(func(b *hapi.CryptoCreateTransactionBody) { b.Key = hapikey.Ed25519([]byte{1}) }), hapi.ResponseCodeEnum_INVALID_ADMIN_KEY},
		{"a key without end", created(func(b *hapi.CryptoCreateTransactionBody) { b.Key = endless }), hapi.ResponseCodeEnum_INVALID_ADMIN_KEY},
		{"a balance above the supply", created(func(b *hapi.CryptoCreateTransactionBody) { b.InitialBalance = uint64(state.TotalSupply) + 1 }), hapi.ResponseCodeEnum_INSUFFICIENT_PAYER_BALANCE},
		{"a balance that is none", created(func(b *hapi.CryptoCreateTransactionBody) { b.InitialBalance = math.MaxInt64 + 1 }), hapi.ResponseCodeEnum_INVALID_INITIAL_BALANCE},
		{"a stake to nobody", created(func(b *hapi.CryptoCreateTransactionBody) {
			b.StakedId = &hapi.CryptoCreateTransactionBody_StakedAccountId{StakedAccountId: nobody}
		}), hapi.ResponseCodeEnum_INVALID_STAKING_ID},
		{"a stake to node -1", created(func(b *hapi.CryptoCreateTransactionBody) {
			b.StakedId = &hapi.CryptoCreateTransactionBody_StakedNodeId{StakedNodeId: -1}
		}), hapi.ResponseCodeEnum_INVALID_STAKING_ID},

		{"update of no account", &hapi.CryptoUpdateTransactionBody{}, hapi.ResponseCodeEnum_ACCOUNT_ID_DOES_NOT_EXIST},
		{"update until now", updated(&hapi.CryptoUpdateTransactionBody{ExpirationTime: r.after(-1)}), hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME},
		{"update for more than 100 years", updated(&hapi.CryptoUpdateTransactionBody{ExpirationTime: r.after(core.MaxLifetime + 100)}), hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME},
		{"update to an earlier end", updated(&hapi.CryptoUpdateTransactionBody{ExpirationTime: r.after(1_000)}), hapi.ResponseCodeEnum_EXPIRATION_REDUCTION_NOT_ALLOWED},
		{"update to a later end", updated(&hapi.CryptoUpdateTransactionBody{ExpirationTime: r.after(core.MaxLifetime - 100)}), okay},
		{"update, short period", updated(&hapi.CryptoUpdateTransactionBody{AutoRenewPeriod: seconds(1)}), hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE},
		{"update, long memo", updated(&hapi.CryptoUpdateTransactionBody{Memo: wrapperspb.String(longMemo)}), hapi.ResponseCodeEnum_MEMO_TOO_LONG},
		{"update, -2 slots", slots(-2), hapi.ResponseCodeEnum_INVALID_MAX_AUTO_ASSOCIATIONS},
		{"update, 5,001 slots", slots(5_001), hapi.ResponseCodeEnum_REQUESTED_NUM_AUTOMATIC_ASSOCIATIONS_EXCEEDS_ASSOCIATION_LIMIT},
		{"update, unlimited slots", slots(-1), okay},
		{"update, no stake", updated(&hapi.CryptoUpdateTransactionBody{StakedId: &hapi.CryptoUpdateTransactionBody_StakedAccountId{StakedAccountId: nobody}}), okay},

		{"deletion in its own favour", &hapi.CryptoDeleteTransactionBody{DeleteAccountID: me, TransferAccountID: me}, hapi.ResponseCodeEnum_TRANSFER_ACCOUNT_SAME_AS_DELETE_ACCOUNT},
		{"transfer from a deleted account", amounts(gone.id.AccountID(), -1, me, 1).GetCryptoTransfer(), hapi.ResponseCodeEnum_ACCOUNT_DELETED},
		{"transfer of more than there is", amounts(me, -math.MaxInt64, dev(t, 1).id.AccountID(), math.MaxInt64).GetCryptoTransfer(), hapi.ResponseCodeEnum_INSUFFICIENT_ACCOUNT_BALANCE},
		{"transfer to oneself", amounts(me, -1, me, 1).GetCryptoTransfer(), hapi.ResponseCodeEnum_ACCOUNT_REPEATED_IN_ACCOUNT_AMOUNTS},
	})
}

func TestFileValidation(t *testing.T) {
	r := newRig(t, Config{})
	owner := dev(t, 0)
	made := func(until *hapi.Timestamp, memo string, keys ...*hapi.Key) *hapi.FileCreateTransactionBody {
		return &hapi.FileCreateTransactionBody{ExpirationTime: until, Memo: memo, Keys: &hapi.KeyList{Keys: keys}, Contents: []byte("x")}
	}
	until := r.after(3_000_000)
	rec := r.submit(owner.id, core.BodyOf(made(until, "", publicKey(fresh(t, 1)))), owner.key, fresh(t, 1).key)
	r.want(rec, okay)
	id := &hapi.FileID{FileNum: rec.File.Num}
	start := int64(1_700_000_000) // what transactions of the rig are valid from
	r.judge([]verdict{
		{"without an end", made(nil, ""), hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME},
		{"until now", made(r.after(0), ""), hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE},
		{"for more than 100 years", made(r.after(core.MaxLifetime+100), ""), hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE},
		{"a long memo", made(r.after(3_000_000), longMemo), hapi.ResponseCodeEnum_MEMO_TOO_LONG},
		{"of others, other contents", &hapi.FileUpdateTransactionBody{FileID: id, Contents: []byte("y")}, hapi.ResponseCodeEnum_INVALID_SIGNATURE},
		{"of others, a later end", &hapi.FileUpdateTransactionBody{FileID: id, ExpirationTime: &hapi.Timestamp{Seconds: start + core.MaxRenewPeriod}}, okay},
		{"too short from its start", &hapi.FileUpdateTransactionBody{FileID: id, ExpirationTime: &hapi.Timestamp{Seconds: start + core.MinRenewPeriod - 1}}, hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE},
		{"too long from its start", &hapi.FileUpdateTransactionBody{FileID: id, ExpirationTime: &hapi.Timestamp{Seconds: start + core.MaxRenewPeriod + 1}}, hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE},
		{"an earlier end, which changes nothing", &hapi.FileUpdateTransactionBody{FileID: id, ExpirationTime: &hapi.Timestamp{Seconds: start + core.MinRenewPeriod}}, okay},
	})
	own := r.submit(owner.id, core.BodyOf(made(r.after(3_000_000), "", publicKey(owner))), owner.key)
	r.want(own, okay)
	r.judge([]verdict{{"update, long memo", &hapi.FileUpdateTransactionBody{
		FileID: &hapi.FileID{FileNum: own.File.Num}, Memo: wrapperspb.String(longMemo),
	}, hapi.ResponseCodeEnum_MEMO_TOO_LONG}})
	if f, _ := r.View().File(rec.File); f.Expires.Seconds != until.Seconds {
		t.Errorf("the file of others ends at %s", f.Expires)
	}
}

func TestContractValidation(t *testing.T) {
	r := newRig(t, Config{})
	owner, gone := dev(t, 0), r.deletedAccount()
	me := owner.id.AccountID()
	code := program.New().ReturnViaCodeCopy([]byte{byte(vm.STOP)}).Bytes()
	made := func(edit func(*hapi.ContractCreateTransactionBody)) *hapi.ContractCreateTransactionBody {
		b := &hapi.ContractCreateTransactionBody{
			Gas: 500_000, AutoRenewPeriod: seconds(core.GenesisRenewal), AdminKey: publicKey(owner),
			InitcodeSource: &hapi.ContractCreateTransactionBody_Initcode{Initcode: code},
		}
		edit(b)
		return b
	}
	contract := func() *hapi.ContractID {
		rec := r.submit(owner.id, core.BodyOf(made(func(b *hapi.ContractCreateTransactionBody) {
			b.AutoRenewAccountId = dev(t, 1).id.AccountID()
			b.StakedId = &hapi.ContractCreateTransactionBody_StakedNodeId{StakedNodeId: 0}
		})), owner.key, dev(t, 1).key)
		r.want(rec, okay)
		return rec.ContractID.ContractID()
	}
	id, dead := contract(), contract()
	r.judge([]verdict{{"deletion", &hapi.ContractDeleteTransactionBody{ContractID: dead, Obtainers: &hapi.ContractDeleteTransactionBody_TransferAccountID{TransferAccountID: me}}, okay}})
	updated := func(b *hapi.ContractUpdateTransactionBody) proto.Message {
		b.ContractID = id
		return b
	}
	deletedFor := func(of *hapi.ContractID, account *hapi.AccountID, contract *hapi.ContractID) proto.Message {
		b := &hapi.ContractDeleteTransactionBody{ContractID: of}
		switch {
		case account != nil:
			b.Obtainers = &hapi.ContractDeleteTransactionBody_TransferAccountID{TransferAccountID: account}
		case contract != nil:
			b.Obtainers = &hapi.ContractDeleteTransactionBody_TransferContractID{TransferContractID: contract}
		}
		return b
	}
	r.judge([]verdict{
		{"no code", made(func(b *hapi.ContractCreateTransactionBody) {
			b.InitcodeSource = &hapi.ContractCreateTransactionBody_Initcode{}
		}), hapi.ResponseCodeEnum_CONTRACT_BYTECODE_EMPTY},
		{"no source of code", made(func(b *hapi.ContractCreateTransactionBody) { b.InitcodeSource = nil }), hapi.ResponseCodeEnum_INVALID_FILE_ID},
		{"no period", made(func(b *hapi.ContractCreateTransactionBody) { b.AutoRenewPeriod = nil }), hapi.ResponseCodeEnum_INVALID_RENEWAL_PERIOD},
		{"a short period", made(func(b *hapi.ContractCreateTransactionBody) { b.AutoRenewPeriod = seconds(1) }), hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE},
		{"-2 slots", made(func(b *hapi.ContractCreateTransactionBody) { b.MaxAutomaticTokenAssociations = -2 }), hapi.ResponseCodeEnum_INVALID_MAX_AUTO_ASSOCIATIONS},
		{"5,001 slots", made(func(b *hapi.ContractCreateTransactionBody) { b.MaxAutomaticTokenAssociations = 5_001 }), hapi.ResponseCodeEnum_REQUESTED_NUM_AUTOMATIC_ASSOCIATIONS_EXCEEDS_ASSOCIATION_LIMIT},
		{"a long memo", made(func(b *hapi.ContractCreateTransactionBody) { b.Memo = longMemo }), hapi.ResponseCodeEnum_MEMO_TOO_LONG},
		{"a deleted renewer", made(func(b *hapi.ContractCreateTransactionBody) { b.AutoRenewAccountId = gone.id.AccountID() }), hapi.ResponseCodeEnum_INVALID_AUTORENEW_ACCOUNT},
		{"a renewer who has not signed", made(func(b *hapi.ContractCreateTransactionBody) { b.AutoRenewAccountId = dev(t, 9).id.AccountID() }), hapi.ResponseCodeEnum_INVALID_SIGNATURE},

		{"update until now", updated(&hapi.ContractUpdateTransactionBody{ExpirationTime: r.after(-1)}), hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME},
		{"update for more than 100 years", updated(&hapi.ContractUpdateTransactionBody{ExpirationTime: r.after(core.MaxLifetime + 100)}), hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME},
		{"update to an earlier end", updated(&hapi.ContractUpdateTransactionBody{ExpirationTime: r.after(100)}), hapi.ResponseCodeEnum_EXPIRATION_REDUCTION_NOT_ALLOWED},
		{"update, -2 slots", updated(&hapi.ContractUpdateTransactionBody{MaxAutomaticTokenAssociations: wrapperspb.Int32(-2)}), hapi.ResponseCodeEnum_INVALID_MAX_AUTO_ASSOCIATIONS},
		{"update, no renewer", updated(&hapi.ContractUpdateTransactionBody{AutoRenewAccountId: nobody}), okay},
		{"update, no stake", updated(&hapi.ContractUpdateTransactionBody{StakedId: &hapi.ContractUpdateTransactionBody_StakedAccountId{StakedAccountId: nobody}}), okay},
		{"update of a deleted one", &hapi.ContractUpdateTransactionBody{ContractID: dead, ExpirationTime: r.after(9_000_000)}, hapi.ResponseCodeEnum_INVALID_CONTRACT_ID},

		{"deletion for nobody", deletedFor(id, nil, nil), hapi.ResponseCodeEnum_OBTAINER_REQUIRED},
		{"deletion for an empty id", deletedFor(id, &hapi.AccountID{}, nil), hapi.ResponseCodeEnum_OBTAINER_DOES_NOT_EXIST},
		{"deletion for a missing account", deletedFor(id, unknown, nil), hapi.ResponseCodeEnum_INVALID_TRANSFER_ACCOUNT_ID},
		{"deletion for a deleted account", deletedFor(id, gone.id.AccountID(), nil), hapi.ResponseCodeEnum_OBTAINER_DOES_NOT_EXIST},
		{"deletion for a deleted contract", deletedFor(id, nil, dead), hapi.ResponseCodeEnum_INVALID_CONTRACT_ID},
		{"deletion for itself", deletedFor(id, nil, id), hapi.ResponseCodeEnum_OBTAINER_SAME_CONTRACT_ID},
		{"deletion of a deleted one", deletedFor(dead, me, nil), hapi.ResponseCodeEnum_CONTRACT_DELETED},
	})
	a, _ := r.View().Account(hedera.Entity(id.GetContractNum()))
	if !a.AutoRenewAccount.IsZero() || a.StakedNode != -1 {
		t.Errorf("renewed by %s, staked to %d", a.AutoRenewAccount, a.StakedNode)
	}
}

func TestTokenValidation(t *testing.T) {
	r := newRig(t, Config{})
	owner, holder := dev(t, 0), dev(t, 1)
	gone, me, you := r.deletedAccount(), owner.id.AccountID(), holder.id.AccountID()
	withKYC := func(b *hapi.TokenCreateTransactionBody) { b.KycKey = publicKey(owner) }
	coin, art := r.fungibleToken(owner, nil), r.collection(owner, 3, nil)
	fixed := r.fungibleToken(owner, func(b *hapi.TokenCreateTransactionBody) { b.AdminKey = nil })
	guarded, paused := r.fungibleToken(owner, withKYC), r.fungibleToken(owner, nil)
	r.associated(holder, coin, art, guarded, paused)
	made := func(edit func(*hapi.TokenCreateTransactionBody)) proto.Message {
		b := &hapi.TokenCreateTransactionBody{Name: "N", Symbol: "S", Treasury: me}
		edit(b)
		return b
	}
	updated := func(token hedera.ID, b *hapi.TokenUpdateTransactionBody) proto.Message {
		b.Token = token.TokenID()
		return b
	}
	freeze := func(token hedera.ID, who *hapi.AccountID) proto.Message {
		return &hapi.TokenFreezeAccountTransactionBody{Token: token.TokenID(), Account: who}
	}
	thaw := func(token hedera.ID, who *hapi.AccountID) proto.Message {
		return &hapi.TokenUnfreezeAccountTransactionBody{Token: token.TokenID(), Account: who}
	}
	spend := func(token hedera.ID, amount int64) proto.Message {
		return &hapi.CryptoApproveAllowanceTransactionBody{TokenAllowances: []*hapi.TokenAllowance{{TokenId: token.TokenID(), Owner: me, Spender: you, Amount: amount}}}
	}
	r.judge([]verdict{
		{"for 100 years", made(func(b *hapi.TokenCreateTransactionBody) { b.Expiry = r.after(core.MaxLifetime + 100) }), hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME},
		{"until now", made(func(b *hapi.TokenCreateTransactionBody) { b.Expiry = r.after(-1) }), hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME},
		{"a short period", made(func(b *hapi.TokenCreateTransactionBody) { b.AutoRenewPeriod = seconds(1) }), hapi.ResponseCodeEnum_INVALID_RENEWAL_PERIOD},
		{"a renewer without a period", made(func(b *hapi.TokenCreateTransactionBody) { b.AutoRenewAccount = me }), hapi.ResponseCodeEnum_INVALID_RENEWAL_PERIOD},
		{"a deleted renewer", made(func(b *hapi.TokenCreateTransactionBody) {
			b.AutoRenewAccount, b.AutoRenewPeriod = gone.id.AccountID(), seconds(core.GenesisRenewal)
		}), hapi.ResponseCodeEnum_INVALID_AUTORENEW_ACCOUNT},
		{"a deleted treasury", made(func(b *hapi.TokenCreateTransactionBody) { b.Treasury = gone.id.AccountID() }), hapi.ResponseCodeEnum_INVALID_TREASURY_ACCOUNT_FOR_TOKEN},
		{"a missing treasury", made(func(b *hapi.TokenCreateTransactionBody) { b.Treasury = unknown }), hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID},
		{"a deleted collector", made(func(b *hapi.TokenCreateTransactionBody) {
			b.CustomFees = []*hapi.CustomFee{{FeeCollectorAccountId: gone.id.AccountID(), Fee: &hapi.CustomFee_FixedFee{FixedFee: &hapi.FixedFee{Amount: 1}}}}
		}), hapi.ResponseCodeEnum_INVALID_CUSTOM_FEE_COLLECTOR},

		{"pausing", &hapi.TokenPauseTransactionBody{Token: paused.TokenID()}, okay},
		{"allowance of a paused token", spend(paused, 5), okay},
		{"immutable, although the name is too long", updated(fixed, &hapi.TokenUpdateTransactionBody{Name: longMemo}), hapi.ResponseCodeEnum_TOKEN_IS_IMMUTABLE},
		{"a key that is none", updated(coin, &hapi.TokenUpdateTransactionBody{SupplyKey: hapikey.Ed25519([]byte{1})}), hapi.ResponseCodeEnum_INVALID_SUPPLY_KEY},
		{"a long name", updated(coin, &hapi.TokenUpdateTransactionBody{Name: longMemo}), hapi.ResponseCodeEnum_TOKEN_NAME_TOO_LONG},
		{"an earlier end", updated(coin, &hapi.TokenUpdateTransactionBody{Expiry: r.after(100)}), hapi.ResponseCodeEnum_EXPIRATION_REDUCTION_NOT_ALLOWED},
		{"an end that is over", updated(coin, &hapi.TokenUpdateTransactionBody{Expiry: r.after(-100)}), hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME},
		{"a treasury that is deleted", updated(coin, &hapi.TokenUpdateTransactionBody{Treasury: gone.id.AccountID()}), hapi.ResponseCodeEnum_ACCOUNT_DELETED},
		{"the treasury of a token with KYC", updated(guarded, &hapi.TokenUpdateTransactionBody{Treasury: you}), okay},

		{"metadata mint no coins", &hapi.TokenMintTransactionBody{Token: coin.TokenID(), Metadata: [][]byte{{1}}}, okay},
		{"an amount mints no NFT", &hapi.TokenMintTransactionBody{Token: art.TokenID(), Amount: 1}, hapi.ResponseCodeEnum_INVALID_TOKEN_MINT_METADATA},
		{"serials burn no coins", &hapi.TokenBurnTransactionBody{Token: coin.TokenID(), SerialNumbers: []int64{1}}, okay},
		{"an amount burns no NFT", &hapi.TokenBurnTransactionBody{Token: art.TokenID(), Amount: 1}, hapi.ResponseCodeEnum_INVALID_TOKEN_BURN_METADATA},
		{"both", &hapi.TokenBurnTransactionBody{Token: art.TokenID(), Amount: 1, SerialNumbers: []int64{1}}, hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY},
		{"serial 0", &hapi.TokenBurnTransactionBody{Token: art.TokenID(), SerialNumbers: []int64{0}}, hapi.ResponseCodeEnum_INVALID_NFT_ID},
		{"more than there is", &hapi.TokenBurnTransactionBody{Token: coin.TokenID(), Amount: 1001}, hapi.ResponseCodeEnum_INVALID_TOKEN_BURN_AMOUNT},
		{"one burnt twice", &hapi.TokenBurnTransactionBody{Token: art.TokenID(), SerialNumbers: []int64{3, 3}}, okay},
		{"wiping nothing", &hapi.TokenWipeAccountTransactionBody{Token: coin.TokenID(), Account: you}, okay},

		{"freezing the treasury", freeze(art, me), okay},
		{"burning in it", &hapi.TokenBurnTransactionBody{Token: art.TokenID(), SerialNumbers: []int64{2}}, hapi.ResponseCodeEnum_ACCOUNT_FROZEN_FOR_TOKEN},
		{"thawing it", thaw(art, me), okay},
		{"freezing a holder", freeze(guarded, me), okay},
		{"freezing it again", freeze(guarded, me), hapi.ResponseCodeEnum_ACCOUNT_FROZEN_FOR_TOKEN},
		{"KYC for it", &hapi.TokenGrantKycTransactionBody{Token: guarded.TokenID(), Account: me}, hapi.ResponseCodeEnum_ACCOUNT_FROZEN_FOR_TOKEN},
		{"KYC without a key for it", &hapi.TokenGrantKycTransactionBody{Token: paused.TokenID(), Account: me}, hapi.ResponseCodeEnum_TOKEN_HAS_NO_KYC_KEY},

		{"an NFT to oneself", core.BodyOf(&hapi.CryptoTransferTransactionBody{TokenTransfers: []*hapi.TokenTransferList{nftGift(art, me, me, 1)}}).GetCryptoTransfer(), hapi.ResponseCodeEnum_ACCOUNT_REPEATED_IN_ACCOUNT_AMOUNTS},
		{"an NFT twice", &hapi.CryptoTransferTransactionBody{TokenTransfers: []*hapi.TokenTransferList{nftGift(art, me, you, 1, 1)}}, hapi.ResponseCodeEnum_INVALID_ACCOUNT_AMOUNTS},
		{"rejection by a deleted account", reject(gone.id.AccountID(), rejectedTokenOf(coin.TokenID())).GetTokenReject(), hapi.ResponseCodeEnum_ACCOUNT_DELETED},
		{"rejection by nobody", reject(unknown, rejectedTokenOf(coin.TokenID())).GetTokenReject(), hapi.ResponseCodeEnum_INVALID_OWNER_ID},
		{"claim of a deleted account", claim(&hapi.PendingAirdropId{
			SenderId: me, ReceiverId: gone.id.AccountID(), TokenReference: &hapi.PendingAirdropId_FungibleTokenType{FungibleTokenType: coin.TokenID()},
		}).GetTokenClaimAirdrop(), hapi.ResponseCodeEnum_INVALID_PENDING_AIRDROP_ID},
	})

	// Nobody pays a fee to a collector that is gone.
	collector := r.account(dev(t, 3), func(*hapi.CryptoCreateTransactionBody) {})
	charged := r.fungibleToken(owner, func(b *hapi.TokenCreateTransactionBody) {
		b.CustomFees = []*hapi.CustomFee{{FeeCollectorAccountId: collector.id.AccountID(), Fee: &hapi.CustomFee_FixedFee{FixedFee: &hapi.FixedFee{Amount: 1}}}}
	})
	third := dev(t, 2)
	r.associated(holder, charged)
	r.associated(third, charged)
	r.judge([]verdict{
		{"a gift of the treasury", units(charged, me, -10, you, 10).GetCryptoTransfer(), okay},
		{"deletion of the collector", &hapi.CryptoDeleteTransactionBody{DeleteAccountID: collector.id.AccountID(), TransferAccountID: me}, okay},
		{"a transfer with its fee", units(charged, you, -1, third.id.AccountID(), 1).GetCryptoTransfer(), hapi.ResponseCodeEnum_ACCOUNT_DELETED},
	})
}

// Whoever may transfer all NFTs of an owner may approve others for single ones, and the NFT says who did.
func TestDelegatedApproval(t *testing.T) {
	r := newRig(t, Config{})
	owner, agent, buyer := dev(t, 0), dev(t, 1), dev(t, 2)
	art := r.collection(owner, 1, nil)
	r.associated(buyer, art)
	approve := func(spender party, by *hapi.AccountID, all bool, serials ...int64) proto.Message {
		a := &hapi.NftAllowance{TokenId: art.TokenID(), Owner: owner.id.AccountID(), Spender: spender.id.AccountID(), DelegatingSpender: by, SerialNumbers: serials}
		if all {
			a.ApprovedForAll = wrapperspb.Bool(true)
		}
		return &hapi.CryptoApproveAllowanceTransactionBody{NftAllowances: []*hapi.NftAllowance{a}}
	}
	r.judge([]verdict{
		{"without being approved", approve(buyer, agent.id.AccountID(), false, 1), hapi.ResponseCodeEnum_DELEGATING_SPENDER_DOES_NOT_HAVE_APPROVE_FOR_ALL},
		{"for all", approve(agent, nil, true), okay},
		{"all for others", approve(buyer, agent.id.AccountID(), true), hapi.ResponseCodeEnum_DELEGATING_SPENDER_CANNOT_GRANT_APPROVE_FOR_ALL},
		{"one, named twice", approve(buyer, agent.id.AccountID(), false, 1, 1), okay},
	})
	if nft, _ := r.Handled().NFT(art, 1); nft.Spender != buyer.id || nft.Delegating != agent.id {
		t.Errorf("%s may transfer it, approved by %s", nft.Spender, nft.Delegating)
	}
	r.want(r.submit(owner.id, core.BodyOf(&hapi.CryptoTransferTransactionBody{TokenTransfers: []*hapi.TokenTransferList{nftGift(art, owner.id.AccountID(), buyer.id.AccountID(), 1)}}), owner.key), okay)
	if nft, _ := r.Handled().NFT(art, 1); !nft.Spender.IsZero() || !nft.Delegating.IsZero() {
		t.Errorf("after a transfer: %+v", nft)
	}
}

func TestTopicValidation(t *testing.T) {
	r := newRig(t, Config{})
	owner, collector := dev(t, 0), dev(t, 9)
	key := publicKey(owner)
	made := func(edit func(*hapi.ConsensusCreateTopicTransactionBody)) *hapi.ConsensusCreateTopicTransactionBody {
		b := &hapi.ConsensusCreateTopicTransactionBody{AdminKey: key, AutoRenewPeriod: seconds(core.GenesisRenewal)}
		edit(b)
		return b
	}
	fee := func(amount int64) *hapi.FixedCustomFee {
		return &hapi.FixedCustomFee{FeeCollectorAccountId: collector.id.AccountID(), FixedFee: &hapi.FixedFee{Amount: amount}}
	}
	rec := r.submit(owner.id, core.BodyOf(made(func(b *hapi.ConsensusCreateTopicTransactionBody) {
		b.AutoRenewAccount = owner.id.AccountID()
		b.CustomFees = []*hapi.FixedCustomFee{fee(3), fee(4)}
	})), owner.key)
	r.want(rec, okay)
	id := &hapi.TopicID{TopicNum: rec.Did().Topic.Num}
	updated := func(b *hapi.ConsensusUpdateTopicTransactionBody) proto.Message {
		b.TopicID = id
		return b
	}
	r.judge([]verdict{
		{"a period of zero", made(func(b *hapi.ConsensusCreateTopicTransactionBody) { b.AutoRenewPeriod = seconds(0) }), hapi.ResponseCodeEnum_AUTORENEW_DURATION_NOT_IN_RANGE},
		{"a key twice", made(func(b *hapi.ConsensusCreateTopicTransactionBody) { b.FeeExemptKeyList = []*hapi.Key{key, key} }), hapi.ResponseCodeEnum_FEE_EXEMPT_KEY_LIST_CONTAINS_DUPLICATED_KEYS},
		{"an exempt key that is none", made(func(b *hapi.ConsensusCreateTopicTransactionBody) {
			b.FeeExemptKeyList = []*hapi.Key{hapikey.Ed25519([]byte{1})}
		}), hapi.ResponseCodeEnum_INVALID_KEY_IN_FEE_EXEMPT_KEY_LIST},
		{"update until now", updated(&hapi.ConsensusUpdateTopicTransactionBody{ExpirationTime: r.after(-1)}), hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME},
		{"update for more than 100 years", updated(&hapi.ConsensusUpdateTopicTransactionBody{ExpirationTime: r.after(core.MaxLifetime + 100)}), hapi.ResponseCodeEnum_INVALID_EXPIRATION_TIME},
		{"update to an earlier end", updated(&hapi.ConsensusUpdateTopicTransactionBody{ExpirationTime: r.after(100)}), hapi.ResponseCodeEnum_EXPIRATION_REDUCTION_NOT_ALLOWED},
		{"no admin, but a renewer", updated(&hapi.ConsensusUpdateTopicTransactionBody{AdminKey: hapikey.Hollow()}), hapi.ResponseCodeEnum_AUTORENEW_ACCOUNT_NOT_ALLOWED},
	})
	for _, tt := range []struct {
		name   string
		limits []*hapi.FixedFee
		want   hedera.Status
	}{
		{"the sum of the fees", []*hapi.FixedFee{{Amount: 7}}, okay},
		{"one fee of two", []*hapi.FixedFee{{Amount: 4}}, hapi.ResponseCodeEnum_MAX_CUSTOM_FEE_LIMIT_EXCEEDED},
		{"in another token", []*hapi.FixedFee{{Amount: 7, DenominatingTokenId: hedera.Entity(7).TokenID()}}, hapi.ResponseCodeEnum_NO_VALID_MAX_CUSTOM_FEE},
		{"twice the same", []*hapi.FixedFee{{Amount: 7}, {Amount: 8}}, hapi.ResponseCodeEnum_DUPLICATE_DENOMINATION_IN_MAX_CUSTOM_FEE_LIST},
		{"nothing", nil, hapi.ResponseCodeEnum_INVALID_MAX_CUSTOM_FEES},
	} {
		limits := []*hapi.CustomFeeLimit{{AccountId: owner.id.AccountID(), Fees: tt.limits}}
		body := core.BodyOf(&hapi.ConsensusSubmitMessageTransactionBody{TopicID: id, Message: []byte("m")})
		body.MaxCustomFees = limits
		status := r.PureCheck(body)
		if status == okay {
			status = r.submit(owner.id, body, owner.key).Status
		}
		if status != tt.want {
			t.Errorf("limits, %s: %s, want %s", tt.name, status, tt.want)
		}
		other := amounts(owner.id.AccountID(), -1, collector.id.AccountID(), 1)
		if other.MaxCustomFees = limits; r.PureCheck(other) != hapi.ResponseCodeEnum_MAX_CUSTOM_FEES_IS_NOT_SUPPORTED {
			t.Errorf("limits of a transfer: %s", r.PureCheck(other))
		}
	}
}

// A schedule may have a payer that is gone; it fails at its turn.
func TestScheduleOfADeletedPayer(t *testing.T) {
	r := newRig(t, Config{})
	owner, gone := dev(t, 0), r.deletedAccount()
	rec := r.schedule(owner, &scheduleBody{ScheduledTransactionBody: scheduledTransfer(owner.id, dev(t, 1).id, 1), PayerAccountID: gone.id.AccountID()}, gone.key)
	r.want(rec, okay)
	if done := r.executed(rec); done == nil || done.Status != hapi.ResponseCodeEnum_PAYER_ACCOUNT_DELETED {
		t.Errorf("executed as %+v", done)
	}
}
