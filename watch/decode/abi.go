package decode

import (
	"encoding/json"
	"fmt"
)

// ABI is what a compiler says of a contract. Entries of one name stand in the order of the text.
type ABI struct {
	Functions, Errors, Events []*Signature
	Anonymous                 []*Signature // events whose logs do not say which event they are
	Constructor               *Signature   // nil: it takes no arguments, or has no signature here
	// Unread are entries that have no signature here, by their names: what is beyond the bounds of this package.
	Unread map[string]error
}

type abiEntry struct {
	Type, Name string
	Anonymous  bool
	Inputs     []abiInput
}

type abiInput struct {
	Name, Type string
	Indexed    bool
	Components []abiInput
}

// ReadABI reads an ABI's JSON, or a compiler's artefact that has it in its field "abi".
func ReadABI(text []byte) (ABI, error) {
	var artefact struct {
		ABI json.RawMessage `json:"abi"`
	}
	if json.Unmarshal(text, &artefact) == nil && artefact.ABI != nil {
		text = artefact.ABI
	}
	var entries []abiEntry
	if err := json.Unmarshal(text, &entries); err != nil {
		return ABI{}, fmt.Errorf("it is not an ABI: %w", err)
	}
	all := ABI{Unread: map[string]error{}}
	lists := map[string]*[]*Signature{"function": &all.Functions, "error": &all.Errors, "event": &all.Events}
	for _, e := range entries {
		if e.Type == "constructor" {
			e.Name = e.Type
		}
		list := lists[e.Type]
		if list == nil && e.Type != "constructor" {
			continue // a fallback
		}
		s, err := e.signature()
		if err != nil {
			all.Unread[e.Name] = err
			continue
		}
		switch {
		case list == nil:
			all.Constructor = s
		case s.Anonymous:
			all.Anonymous = append(all.Anonymous, s)
		default:
			*list = append(*list, s)
		}
	}
	return all, nil
}

func (e *abiEntry) signature() (*Signature, error) {
	if !identifier.MatchString(e.Name) {
		return nil, fmt.Errorf("%.60q is no name", e.Name)
	}
	args, err := arguments(e.Inputs, 0)
	if err != nil {
		return nil, err
	}
	return build(e.Name, args, e.Anonymous && e.Type == "event")
}

func arguments(inputs []abiInput, depth int) ([]Arg, error) {
	if depth > maxNesting || len(inputs) > maxMembers {
		return nil, fmt.Errorf("want at most %d arguments, in at most %d tuples", maxMembers, maxNesting)
	}
	args := make([]Arg, len(inputs))
	for i, in := range inputs {
		members, err := arguments(in.Components, depth+1)
		if err != nil {
			return nil, err
		}
		t, err := typeOf(in.Type, members)
		if err != nil {
			return nil, err
		}
		args[i] = Arg{Name: in.Name, Type: t, Indexed: in.Indexed}
	}
	return args, nil
}
