package ledger

import (
	"crypto/ed25519"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"lockstep/devnet/ledger/core"
	"lockstep/devnet/ledger/evm"
	"lockstep/devnet/ledger/hapikey"
	"lockstep/devnet/ledger/history"
	"lockstep/devnet/ledger/sysabi"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
	"lockstep/internal/must"
)

var accountAddress = hedera.Entity(evm.NumAccountService).LongZero()

// Allowances of hbar, at the service and at an account's own address.
func TestHbarAllowances(t *testing.T) {
	r := newRig(t, Config{})
	owner, spender, stranger := dev(t, 0), dev(t, 1), fresh(t, 7)
	word := func(rec *history.Record, i int) int64 {
		return new(big.Int).SetBytes(rec.Result.Output[32*i : 32*i+32]).Int64()
	}
	rec := r.call(owner, accountAddress, 0, "hbarApprove(address,address,int256)", owner.address, spender.address, big.NewInt(500))
	if got := r.code(rec); got != okay || len(rec.Children) != 1 || rec.Children[0].Kind != history.KindCryptoApprove {
		t.Errorf("approve: %s, children %+v", got, rec.Children)
	}
	rec = r.call(spender, accountAddress, 0, "hbarAllowance(address,address)", owner.address, spender.address)
	if got := r.code(rec); got != okay || word(rec, 1) != 500 || len(rec.Children) != 0 {
		t.Errorf("allowance: %s %d", got, word(rec, 1))
	}
	// At the owner's own address, for its own caller.
	if got := r.code(r.call(owner, owner.address, 0, "hbarApprove(address,int256)", spender.address, big.NewInt(40))); got != okay {
		t.Errorf("approve at the account: %s", got)
	}
	rec = r.call(spender, owner.address, 0, "hbarAllowance(address)", spender.address)
	if got := r.code(rec); got != okay || word(rec, 1) != 40 {
		t.Errorf("allowance at the account: %s %d", got, word(rec, 1))
	}
	for a := range r.View().Allowances(owner.id, false) {
		if a.Amount != 40 || a.Spender != spender.id {
			t.Errorf("%+v", a)
		}
	}
	// Nobody approves for others, and what is wrong has its code.
	for name, tt := range map[string]struct {
		owner, spender common.Address
		amount         int64
		want           hedera.Status
	}{
		"another's":  {owner.address, spender.address, 1, hapi.ResponseCodeEnum_INVALID_FULL_PREFIX_SIGNATURE_FOR_PRECOMPILE},
		"negative":   {spender.address, owner.address, -1, hapi.ResponseCodeEnum_NEGATIVE_ALLOWANCE_AMOUNT},
		"to oneself": {spender.address, spender.address, 1, hapi.ResponseCodeEnum_SPENDER_ACCOUNT_SAME_AS_OWNER},
		"to nobody":  {spender.address, stranger.address, 1, hapi.ResponseCodeEnum_INVALID_ALLOWANCE_SPENDER_ID},
	} {
		rec := r.call(spender, accountAddress, 0, "hbarApprove(address,address,int256)", tt.owner, tt.spender, big.NewInt(tt.amount))
		if got := r.code(rec); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
	r.want(r.call(owner, accountAddress, 0, "hbarAllowance(address,address)", stranger.address, owner.address), hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED)
	// Other call data to an account means nothing.
	rec = r.call(owner, spender.address, 0, "balanceOf(address)", owner.address)
	r.want(rec, okay)
	if len(rec.Result.Output) != 0 {
		t.Errorf("an account answers %x", rec.Result.Output)
	}
}

// The address of an account's number and its own translate into one another. Of what is unknown there is a code and
// the zero address, and nothing reverts.
func TestAddressAliases(t *testing.T) {
	r := newRig(t, Config{})
	owner := dev(t, 0)
	own, number, unknown := owner.address, owner.id.LongZero(), hedera.Entity(9_999).LongZero()
	for _, tt := range []struct {
		signature string
		of        common.Address
		code      hedera.Status
		is        common.Address
	}{
		{"getEvmAddressAlias(address)", number, okay, own},
		{"getEvmAddressAlias(address)", own, hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID, common.Address{}},
		{"getEvmAddressAlias(address)", unknown, hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID, common.Address{}},
		{"getHederaAccountNumAlias(address)", own, okay, number},
		{"getHederaAccountNumAlias(address)", fresh(t, 7).address, hapi.ResponseCodeEnum_INVALID_SOLIDITY_ADDRESS, common.Address{}},
	} {
		rec := r.call(owner, accountAddress, 0, tt.signature, tt.of)
		r.want(rec, okay)
		if out := rec.Result.Output; len(out) != 64 || r.code(rec) != tt.code || common.BytesToAddress(out[32:]) != tt.is {
			t.Errorf("%s of %s: %x, want %s and %s", tt.signature, tt.of, out, tt.code, tt.is)
		}
	}
}

// An account opens itself for tokens, and nobody else does.
func TestUnlimitedAssociations(t *testing.T) {
	r := newRig(t, Config{})
	owner, other := dev(t, 0), dev(t, 1)
	const signature = "setUnlimitedAutomaticAssociations(bool)"
	rec := r.call(owner, owner.address, 0, signature, true)
	if got := r.code(rec); got != okay || len(rec.Children) != 1 || rec.Children[0].Kind != history.KindCryptoUpdate {
		t.Errorf("%s, children %+v", got, rec.Children)
	}
	if got := r.code(r.call(other, owner.address, 0, signature, false)); got != hapi.ResponseCodeEnum_INVALID_FULL_PREFIX_SIGNATURE_FOR_PRECOMPILE {
		t.Errorf("by another: %s", got)
	}
	if a, _ := r.View().Account(owner.id); a.MaxAutoAssociations != -1 {
		t.Errorf("limit %d", a.MaxAutoAssociations)
	}
	if got := r.code(r.call(owner, owner.address, 0, signature, false)); got != okay {
		t.Errorf("back: %s", got)
	}
	if a, _ := r.View().Account(owner.id); a.MaxAutoAssociations != 0 {
		t.Errorf("limit %d", a.MaxAutoAssociations)
	}
}

// Signatures are checked against the keys of accounts.
func TestAccountSignatures(t *testing.T) {
	r := newRig(t, Config{})
	one, two := dev(t, 0), dev(t, 1)
	seed := make([]byte, ed25519.SeedSize)
	private := ed25519.NewKeyFromSeed(seed)
	edPublic := []byte(private[32:])
	rec := r.submit(one.id, create(func(b *hapi.CryptoCreateTransactionBody) { b.Key = hapikey.Ed25519(edPublic) }), one.key)
	r.want(rec, okay)
	edAccount := rec.Account.LongZero()
	both := &hapi.Key{Key: &hapi.Key_KeyList{KeyList: &hapi.KeyList{Keys: []*hapi.Key{publicKey(one), hapikey.Ed25519(edPublic)}}}}
	rec = r.submit(one.id, create(func(b *hapi.CryptoCreateTransactionBody) { b.Key = both }), one.key)
	r.want(rec, okay)
	listed := rec.Account.LongZero()

	message := []byte("what was agreed")
	hash := crypto.Keccak256(message)
	ec := must.Get(crypto.Sign(hash, one.key))(t)
	eip155 := append(append([]byte(nil), ec[:64]...), big.NewInt(int64(ec[64])+35+2*testChain).Bytes()...)
	broken := append([]byte(nil), ec...)
	broken[64] = 30
	ed := ed25519.Sign(private, message)
	const raw = "isAuthorizedRaw(address,bytes,bytes)"
	for name, tt := range map[string]struct {
		account         common.Address
		hash, signature []byte
		want            bool
		failure         hedera.Status
	}{
		"secp256k1":             {one.address, hash, ec, true, okay},
		"with a chain id":       {one.address, hash, eip155, true, okay},
		"another's":             {two.address, hash, ec, false, okay},
		"of something else":     {one.address, crypto.Keccak256([]byte("else")), ec, false, okay},
		"an impossible v":       {one.address, hash, broken, false, okay},
		"by number":             {one.id.LongZero(), hash, ec, false, hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID},
		"no hash":               {one.address, message, ec, false, hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY},
		"too short":             {one.address, hash, ec[:63], false, hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY},
		"Ed25519":               {edAccount, message, ed, true, okay},
		"Ed25519, of else":      {edAccount, hash, ed, false, okay},
		"Ed25519 for secp256k1": {one.address, message, ed, false, hapi.ResponseCodeEnum_INVALID_SIGNATURE_TYPE_MISMATCHING_KEY},
		"a list":                {listed, message, ed, false, hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY},
		"nobody":                {fresh(t, 8).address, hash, ec, false, hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID},
	} {
		rec := r.call(two, accountAddress, 0, raw, tt.account, tt.hash, tt.signature)
		if tt.failure != okay {
			r.want(rec, hapi.ResponseCodeEnum_CONTRACT_REVERT_EXECUTED)
			if want := hexutil.Encode(sysabi.Word(int64(tt.failure)).Bytes()); rec.Result.ErrorMessage != want {
				t.Errorf("%s: %s, want %s", name, rec.Result.ErrorMessage, want)
			}
			continue
		}
		r.want(rec, okay)
		if got := rec.Result.Output; len(got) != 32 || (got[31] == 1) != tt.want {
			t.Errorf("%s: %x", name, got)
		}
	}
	pairs := func(list ...*hapi.SignaturePair) []byte { return core.Marshal(&hapi.SignatureMap{SigPair: list}) }
	ecPair := &hapi.SignaturePair{PubKeyPrefix: publicKey(one).GetECDSASecp256K1(), Signature: &hapi.SignaturePair_ECDSASecp256K1{ECDSASecp256K1: ec}}
	edPair := &hapi.SignaturePair{PubKeyPrefix: edPublic, Signature: &hapi.SignaturePair_Ed25519{Ed25519: ed}}
	for name, tt := range map[string]struct {
		account common.Address
		blob    []byte
		code    hedera.Status
		want    bool
	}{
		"both of a list": {listed, pairs(ecPair, edPair), okay, true},
		"one of a list":  {listed, pairs(edPair), okay, false},
		"single":         {edAccount, pairs(edPair), okay, true},
		"none":           {edAccount, nil, okay, false},
		"nonsense":       {edAccount, []byte{1}, hapi.ResponseCodeEnum_INVALID_TRANSACTION_BODY, false},
		"nobody":         {fresh(t, 8).address, pairs(edPair), hapi.ResponseCodeEnum_INVALID_ACCOUNT_ID, false},
	} {
		rec := r.call(two, accountAddress, 0, "isAuthorized(address,bytes,bytes)", tt.account, message, tt.blob)
		if got := r.code(rec); got != tt.code || (rec.Result.Output[63] == 1) != tt.want {
			t.Errorf("%s: %s %x", name, got, rec.Result.Output)
		}
		if name == "both of a list" && rec.Result.GasConsumed < evm.EcdsaGas+evm.Ed25519Gas {
			t.Errorf("gas %d", rec.Result.GasConsumed)
		}
	}
}
