package mirrorrest

// What the devnet does not have: hooks, rewards. Asking for one of them is answered as by a
// network where nobody made any, so that explorers and probing clients work.

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
