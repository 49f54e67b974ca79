// Package transfers moves hbar, tokens and NFTs: transfers with the custom fees that they cause, airdrops, and rejections.
//
// An airdrop moves what receivers have a place for, and the rest becomes pending: a row that
// names sender, receiver and token. Nothing is set aside for it: the sender keeps what is
// pending and may use it up, and the claim then fails. Custom fees are paid when the airdrop
// is sent. A fractional fee makes smaller what is pending.
package transfers
