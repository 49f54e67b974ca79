// Package webhook posts one message to one URL, signed as Standard Webhooks says, and
// never to an address inside the operator's own network unless that is allowed.
//
// A message carries three headers: webhook-id, which stays the same when it is sent
// again and by which receivers drop duplicates; webhook-timestamp, the second at which
// this attempt was sent; and webhook-signature, "v1," and the HMAC-SHA256 of
// id.timestamp.body in base64. While a secret is rotated there are two signatures with a
// blank between them, and a receiver accepts the message if either is right.
//
// The address is checked when the connection is made, on the IP address that is dialled:
// a name that resolved to a public address when the webhook was made, and to a private
// one later, is refused, too. Redirects are not followed and no proxy is asked, since both
// would choose another address. How often and when a message is sent again is not decided
// here.
//
// # Words
//
//	signing secret   "whsec_" and base64, shared with the receiver
//	private address  loopback, link-local, private, shared (RFC 6598), multicast or unspecified, in
//	                 whatever notation, IPv4 inside IPv6 included
package webhook
