package mirrorrest

import (
	"encoding/hex"

	"google.golang.org/protobuf/proto"

	"lockstep/internal/hapi"
)

type keyJSON struct {
	Type string `json:"_type"`
	Key  string `json:"key"`
}

// keyOf writes a key: a single one by its algorithm, whatever is more than one as
// the bytes of its message, and none, which is also the empty list of a hollow
// account, as null.
func keyOf(k *hapi.Key) *keyJSON {
	for {
		inner, listed := onlyMember(k)
		if !listed {
			break
		}
		k = inner
	}
	switch {
	case k == nil:
		return nil
	case len(k.GetEd25519()) > 0:
		return &keyJSON{Type: "ED25519", Key: hex.EncodeToString(k.GetEd25519())}
	case len(k.GetECDSASecp256K1()) > 0:
		return &keyJSON{Type: "ECDSA_SECP256K1", Key: hex.EncodeToString(k.GetECDSASecp256K1())}
	}
	encoded, err := proto.Marshal(k)
	if err != nil || len(encoded) == 0 {
		return nil
	}
	return &keyJSON{Type: "ProtobufEncoded", Key: hex.EncodeToString(encoded)}
}

// onlyMember unwraps a list or threshold of one key; an empty list is no key.
func onlyMember(k *hapi.Key) (inner *hapi.Key, listed bool) {
	list := k.GetKeyList()
	if threshold := k.GetThresholdKey(); threshold != nil {
		list = threshold.GetKeys()
	}
	switch {
	case list == nil:
		return nil, false
	case len(list.GetKeys()) == 0:
		return nil, true
	case len(list.GetKeys()) == 1:
		return list.GetKeys()[0], true
	default:
		return nil, false
	}
}
