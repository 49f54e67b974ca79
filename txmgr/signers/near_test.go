package signers

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"lockstep/internal/must"
	"lockstep/internal/near"
	"lockstep/internal/secret"
)

func nearSecret(t *testing.T, curve string) (text string, public near.PublicKey) {
	t.Helper()
	text = curve + ":" + near.EncodeBase58(bytes.Repeat([]byte{8}, 32))
	key := must.Get(near.ParseSecretKey(text))(t)
	return text, key.Public()
}

func TestNEARKeys(t *testing.T) {
	ed, edPublic := nearSecret(t, "ed25519")
	secp, secpPublic := nearSecret(t, "secp256k1")
	list, err := OpenNEAR(Config{
		NEARKeys:     secret.String(fmt.Sprintf(`{"relayer.near":[%q,%q]}`, ed, secp)),
		NEARKeysFile: secret.String(fmt.Sprintf(`{"other.near":[%q]}`, ed)),
	})
	if err != nil || len(list) != 3 {
		t.Fatalf("%d keys, %v", len(list), err)
	}
	unsigned := []byte("a transaction")
	digest := sha256.Sum256(unsigned)
	for i, want := range []struct {
		account string
		public  near.PublicKey
	}{{"relayer.near", edPublic}, {"relayer.near", secpPublic}, {"other.near", edPublic}} {
		key := list[i]
		if key.Account() != want.account+"/"+want.public.String() {
			t.Errorf("key %d is %s", i, key.Account())
		}
		raw := must.Get(key.Sign(t.Context(), unsigned))(t)
		if s, err := near.NewSignature(want.public.Curve, raw); err != nil || !want.public.Verify(digest[:], s) {
			t.Errorf("key %d: its signature is not its own (%v)", i, err)
		}
		if shown := fmt.Sprintf("%v %+v %#v", key, key, key); strings.Contains(shown, ed[8:]) || strings.Contains(shown, secp[10:]) {
			t.Errorf("key %d shows itself", i)
		}
	}
}

// TestNEARKeyErrors checks that an error shows nothing of a key.
func TestNEARKeyErrors(t *testing.T) {
	text, _ := nearSecret(t, "ed25519")
	for name, setting := range map[string]string{
		"no JSON":    text,
		"a list":     fmt.Sprintf("[%q]", text),
		"no account": fmt.Sprintf(`{"A b":[%q]}`, text),
		"no key":     fmt.Sprintf(`{"relayer.near":[%q]}`, text+"0"),
		"twice":      fmt.Sprintf(`{"relayer.near":[%q,%q]}`, text, text),
	} {
		list, err := OpenNEAR(Config{NEARKeys: secret.String(setting)})
		if err == nil {
			t.Errorf("%s: %d keys", name, len(list))
		} else if !strings.Contains(err.Error(), "TXM_NEAR_KEYS") || strings.Contains(err.Error(), text[8:30]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
