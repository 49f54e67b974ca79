// Package near is the vocabulary of NEAR: transactions, actions, keys, hashes and account
// ids, in the forms in which the chain has them.
//
// A Transaction names its signer, one of the signer's access keys, a nonce of that key, a
// receiver and a list of actions. It is valid for about a day after the block that it names.
// Its bytes are Borsh: little-endian numbers, u32 lengths, one byte that tells which member
// of a union follows. There is one encoding of each value, so a decoded transaction encodes
// to the same bytes. The hash of a transaction is the SHA-256 of its bytes without the
// signature, and it is what the key signs.
//
// A DelegateAction (NEP-366) is a list of actions that a relayer carries in a transaction of
// its own. Its key signs the SHA-256 of a prefix (NEP-461) and its bytes, so that no
// transaction can have the same hash.
//
// Keys are ed25519 or secp256k1. Their text is the curve's name, a colon and base58. In
// secp256k1 a public key is its two coordinates (64 bytes), a signature r, s and the
// recovery id (65 bytes).
//
// Decoders take bytes of strangers. They refuse what is longer than MaxTransaction, a count
// that the bytes that follow cannot hold, an account id that cannot exist, and bytes left
// over. Kinds of actions that are not here are refused, never skipped.
//
// # Words
//
//	NEAR access key  a key of an account, with a permission and a nonce of its own
//	NEAR action      one step of a transaction
//	delegate action  actions that somebody else carries
//	Borsh            the encoding of NEAR
package near
