// Package tokens handles tokens: their creation and their keys, supply, custom fees, and relations with accounts.
package tokens
