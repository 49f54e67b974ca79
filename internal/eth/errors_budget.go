package eth

// CodeLimitExceeded is EIP-1474's code for a request that exceeds a limit of the server.
const CodeLimitExceeded = -32005

// ErrRequestMemory says: one request, a batch being one, needs more memory than it may have, in bytes.
func ErrRequestMemory(limit int64) *Error {
	return newError(CodeLimitExceeded, "The request and its answer take more than %d bytes of memory: ask for less at a time", limit)
}

// ErrClientMemory says: all requests of one client together hold as much memory as they may, in bytes.
func ErrClientMemory(limit int64) *Error {
	return newError(CodeLimitExceeded, "Your requests in progress hold %d bytes of memory: wait for their answers", limit)
}

// ErrProcessMemory says: the requests of all clients together hold as much memory as there is for them.
func ErrProcessMemory() *Error {
	return newError(CodeLimitExceeded, "The relay is busy with large requests: try again")
}

// ErrRequestTime says: one request, a batch being one, has had as much of the processor as it may, in milliseconds.
func ErrRequestTime(limit int64) *Error {
	return newError(CodeLimitExceeded, "The request takes more than %d milliseconds of processor time: ask for less at a time", limit)
}

// ErrCallsWaiting says: too much work waits already.
func ErrCallsWaiting() *Error {
	return newError(CodeLimitExceeded, "Too many calls wait to be run: try again")
}

// ErrConnections says: too many connections, of all clients or of one address.
func ErrConnections(limit int) *Error {
	return newError(CodeLimitExceeded, "Too many connections: the limit is %d", limit)
}
