package eth

// ErrWrongNonces says: so many of the sender's transactions were refused for their nonce, or
// may be, that only its next one is taken.
func ErrWrongNonces() *Error {
	return newError(CodeServerError, "Too many transactions of this sender have a wrong nonce. Send the one with the next nonce, or wait a minute.")
}
