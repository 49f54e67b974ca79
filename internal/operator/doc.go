// Package operator checks whether the operator of the settings can pay for transactions: whether a mirror node and a
// consensus node know its account, whether the configured key is that of the account, and what its balance is. To look costs nothing and
// sends no transaction.
//
// An account with several keys, or with the key of a contract, cannot be checked from outside: nothing is said of its key.
//
// # Words
//
//	operator          the account that pays for what this process sends, and its key: OPERATOR_ID_MAIN and
//	                  OPERATOR_KEY_MAIN; operators are also the people who run the process
//	finding           what one look has found
//	fits its account  the account exists and the key is its key
package operator
