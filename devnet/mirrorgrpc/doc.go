// Package mirrorgrpc serves the gRPC API of a mirror node over a devnet's ledger:
// subscriptions to the messages of a topic, as SDKs' TopicMessageQuery uses it, and the
// address book, as AddressBookQuery reads it.
//
//	server := mirrorgrpc.New(mirrorgrpc.Config{View: ledger.View, Changed: ledger.Subscribe})
//	server.Run(ctx, listener)
//
// A subscription gets the messages from its start time on, by default from now on, in
// order, each once: first those that there are, then new ones as soon as the mirror node
// knows their block. It ends at its end time, after its limit of messages, or when the
// client leaves. A topic that there is none of is NOT_FOUND, upon which SDKs try again.
// Where the network goes back, a subscription goes on with what comes after.
//
// There is a maximum of subscriptions in all and of streams on a connection.
//
// # Words
//
//	subscription  one client's stream of the messages of one topic
//	generation    see package devnet/ledger
package mirrorgrpc
