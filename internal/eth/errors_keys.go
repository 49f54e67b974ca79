package eth

// ErrKeyLimited says: the holder of the API key called too often, or too much.
func ErrKeyLimited(method string) *Error {
	return newError(CodeRateLimited, "API key rate limit exceeded on %s", method)
}

// ErrKeyMissing says: the request has no API key and needs one.
func ErrKeyMissing() *Error {
	return newError(CodeUnauthorized, "An API key is needed: Authorization: Bearer, or X-API-Key")
}

// ErrKeyUnknown says: there is no such API key, or not any more.
func ErrKeyUnknown() *Error { return newError(CodeUnauthorized, "Unknown API key") }

// ErrKeyMethod says: the API key is not for this method.
func ErrKeyMethod(method string) *Error {
	return newError(CodeUnauthorized, "The API key does not allow %s", method)
}
