// Package apikey knows the API keys that callers of the relay may bring: who a key belongs to, what it may call, and
// how often.
//
// The operator keeps them in a file, one key a line:
//
//	# name   hash                      limits and methods, all of them optional
//	shop     sha256:9f86d081884c7d65…  calls=600 weight=1200 methods=eth_*,net_version
//	indexer  sha256:60303ae22b998861…,sha256:fd61a03af4f77d87…
//
// The file has the SHA-256 of a key alone. That is enough, because New makes keys of 32 random bytes, which nobody can
// guess. Several hashes in one line are several keys of one holder, who has the limits once: so a key is replaced
// without a moment in which none is valid.
//
//	ring := apikey.NewRing(file)
//	holder, ok := ring.Find(token)    // by the text that the caller sent
//	if !holder.May("eth_call") { … }
//	ring.Replace(next)                // holders that are gone are not found any more
//
// A Holder is that of one file. After Replace, Ring.Current returns the one that has taken its place.
//
// # Words
//
//	token             see package internal/secret; here "lrk_" and 32 random bytes
//	API key           a token that the file has the hash of
//	key holder        whose a key is: a name, limits, methods
//	weight of a call  what a call counts: 1, or more for a heavy method
package apikey
