package eth

// ErrWrongNonces says: the network refused so many of the sender's transactions, or may refuse
// them, that only its next one is taken.
func ErrWrongNonces() *Error {
	return newError(CodeServerError, "The network refused too many transactions of this sender, or may refuse them. Send the one with the next nonce, or wait a minute.")
}
