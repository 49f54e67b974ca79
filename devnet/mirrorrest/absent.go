package mirrorrest

// What the devnet does not have: tokens, NFTs, allowances, schedules, topics,
// hooks, airdrops, rewards. Asking for one of them is answered as by a network
// where nobody made any, so that explorers and probing clients work.

// emptyList answers with an empty list of the given name. Its parameters are not
// checked beyond their names being of this API: there is nothing to filter.
func emptyList(name string, accepted ...string) handler {
	allowed := params{}
	for _, parameter := range accepted {
		allowed[parameter] = func(operator, string) bool { return true }
	}
	return func(r *request) (any, error) {
		if _, err := r.query(allowed, ascending); err != nil {
			return nil, err
		}
		return map[string]any{name: []struct{}{}, "links": links{}}, nil
	}
}

// emptyListOfAccount is an empty list below an account, which must exist.
func emptyListOfAccount(name string, accepted ...string) handler {
	list := emptyList(name, accepted...)
	return func(r *request) (any, error) {
		if _, err := r.accountArg(); err != nil {
			return nil, err
		}
		return list(r)
	}
}

// missing answers 404 for any well-formed id of an entity that cannot exist here.
func missing(name string, check check) handler {
	return func(r *request) (any, error) {
		if !check(eq, r.args[0]) {
			return nil, invalidParameter(name)
		}
		return nil, notFound()
	}
}
