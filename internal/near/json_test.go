package near

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/holiman/uint256"

	"lockstep/internal/must"
)

const jsonKey = "ed25519:6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp"

func TestActionsAsJSON(t *testing.T) {
	key := must.Get(ParsePublicKey(jsonKey))(t)
	secret := must.Get(ParseSecretKey("ed25519:" + EncodeBase58([]byte("32 bytes of a key of these tests"))))(t)
	signed := must.Get(DelegateAction{
		Sender: "alice.near", Receiver: "bob.near", Actions: []Action{Transfer{Deposit: *uint256.NewInt(9)}}, Nonce: 3, MaxBlockHeight: 1 << 60, PublicKey: secret.Public(),
	}.Sign(secret))(t)
	bytes := must.Get(signed.Encode())(t)
	delegate := fmt.Sprintf(`{"delegate_action":{"sender_id":"alice.near","receiver_id":"bob.near","actions":[{"Transfer":{"deposit":"9"}}],"nonce":3,"max_block_height":1152921504606846976,"public_key":%q},"signature":%q}`,
		secret.Public(), signed.Signature)
	for name, test := range map[string]struct {
		text string
		want Action
	}{
		"create":          {`"CreateAccount"`, CreateAccount{}},
		"create, empty":   {`{"CreateAccount":{}}`, CreateAccount{}},
		"deploy":          {`{"DeployContract":{"code":"AGFzbQ=="}}`, DeployContract{Code: []byte("\x00asm")}},
		"call":            {`{"FunctionCall":{"method_name":"m","args":"AP8=","gas":30000000000000,"deposit":"1"}}`, FunctionCall{"m", []byte{0, 255}, 30e12, *uint256.NewInt(1)}},
		"call, object":    {`{"FunctionCall":{"method_name":"m","args":{"a": 1},"gas":1,"deposit":"0"}}`, FunctionCall{"m", []byte(`{"a":1}`), 1, uint256.Int{}}},
		"transfer":        {`{"Transfer":{"deposit":"340282366920938463463374607431768211455"}}`, Transfer{*new(uint256.Int).SubUint64(new(uint256.Int).Lsh(uint256.NewInt(1), 128), 1)}},
		"stake":           {`{"Stake":{"stake":"5","public_key":"` + jsonKey + `"}}`, Stake{*uint256.NewInt(5), key}},
		"full access":     {`{"AddKey":{"public_key":"` + jsonKey + `","access_key":{"nonce":0,"permission":"FullAccess"}}}`, AddKey{key, AccessKey{0, FullAccess{}}}},
		"call key":        {`{"AddKey":{"public_key":"` + jsonKey + `","access_key":{"permission":{"FunctionCall":{"allowance":"250","receiver_id":"carol.near","method_names":["a","b"]}}}}}`, AddKey{key, AccessKey{0, CallPermission{uint256.NewInt(250), "carol.near", []string{"a", "b"}}}}},
		"call key, any":   {`{"AddKey":{"public_key":"` + jsonKey + `","access_key":{"permission":{"FunctionCall":{"allowance":null,"receiver_id":"carol.near","method_names":[]}}}}}`, AddKey{key, AccessKey{0, CallPermission{nil, "carol.near", []string{}}}}},
		"delete key":      {`{"DeleteKey":{"public_key":"` + jsonKey + `"}}`, DeleteKey{key}},
		"delete account":  {`{"DeleteAccount":{"beneficiary_id":"carol.near"}}`, DeleteAccount{"carol.near"}},
		"delegate":        {`{"Delegate":` + delegate + `}`, Delegate{signed}},
		"delegate, bytes": {`{"Delegate":"` + base64.StdEncoding.EncodeToString(bytes) + `"}`, Delegate{signed}},
	} {
		t.Run(name, func(t *testing.T) {
			got := must.Get(ParseActions([]byte("[" + test.text + "]")))(t)
			if diff := cmp.Diff([]Action{test.want}, got, cmp.AllowUnexported(PublicKey{}, Signature{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestActionsThatCannotBe(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"no list":          {`{"Transfer":{"deposit":"1"}}`, "want a list"},
		"nothing":          {`[]`, "want a list"},
		"no JSON":          {`[`, "want a list"},
		"many":             {"[" + strings.Repeat(`"CreateAccount",`, MaxActions) + `"CreateAccount"]`, "the chain takes"},
		"long":             {"[" + strings.Repeat(" ", longestJSON) + "]", "maximum"},
		"number":           {`[1]`, "action 1: want a name"},
		"two names":        {`["CreateAccount",{"Transfer":{"deposit":"1"},"Stake":{}}]`, "action 2: want a name"},
		"unknown":          {`[{"Burn":{}}]`, `"Burn" is not a kind`},
		"missing":          {`[{"Transfer":{}}]`, "Transfer: deposit is missing"},
		"null":             {`[{"DeleteKey":{"public_key":null}}]`, "public_key is missing"},
		"not its own":      {`[{"Transfer":{"deposit":"1","gas":1}}]`, `"gas" does not belong here`},
		"number as amount": {`[{"Transfer":{"deposit":1}}]`, "decimal text"},
		"large":            {`[{"Transfer":{"deposit":"340282366920938463463374607431768211456"}}]`, "128 bits"},
		"negative":         {`[{"Transfer":{"deposit":"-1"}}]`, "decimal text"},
		"args":             {`[{"FunctionCall":{"method_name":"m","args":"%","gas":1,"deposit":"0"}}]`, "want base64"},
		"account":          {`[{"DeleteAccount":{"beneficiary_id":"A b"}}]`, "DeleteAccount"},
		"key":              {`[{"DeleteKey":{"public_key":"rsa:1"}}]`, "ed25519"},
		"permission":       {`[{"AddKey":{"public_key":"` + jsonKey + `","access_key":{"permission":"All"}}}]`, "permission: want"},
		"receiver":         {`[{"AddKey":{"public_key":"` + jsonKey + `","access_key":{"permission":{"FunctionCall":{"method_names":[]}}}}}]`, "receiver_id is missing"},
		"nested": {
			`[{"Delegate":{"signature":"ed25519:1","delegate_action":{"sender_id":"alice.near","receiver_id":"bob.near","actions":[{"Delegate":""}],"nonce":1,"max_block_height":1,"public_key":"` + jsonKey + `"}}}]`,
			"a delegate action within",
		},
		"signature": {
			`[{"Delegate":{"signature":"ed25519:1","delegate_action":{"sender_id":"alice.near","receiver_id":"bob.near","actions":["CreateAccount"],"nonce":1,"max_block_height":1,"public_key":"` + jsonKey + `"}}}]`,
			"a signature has 64 bytes",
		},
		"delegate's bytes": {`[{"Delegate":"AAAA"}]`, "not a signed delegate action"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := ParseActions([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, %v; want %q", got, err, test.want)
			}
		})
	}
}

// FuzzActionsAsJSON holds that whatever can be read can be sent.
func FuzzActionsAsJSON(f *testing.F) {
	f.Add([]byte(`["CreateAccount",{"Transfer":{"deposit":"1"}},{"FunctionCall":{"method_name":"m","args":{"a":1},"gas":1,"deposit":"0"}}]`))
	f.Add([]byte(`[{"AddKey":{"public_key":"` + jsonKey + `","access_key":{"permission":"FullAccess"}}},{"Delegate":"AAAA"}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := ParseActions(text)
		if err != nil {
			return
		}
		data, err := EncodeActions(list)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		again, err := DecodeActions(data)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if data2, err := EncodeActions(again); err != nil || string(data2) != string(data) {
			t.Fatalf("%s: %x and %x", text, data, data2)
		}
	})
}
