package watch

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/watch/decode"
)

// Action is the transaction that an event triggers, through a sink that is a transaction manager.
type Action struct {
	On   string // the event, or the signature of one overload
	To   string // an address, or the event's argument that is one; "" for the contract of the event
	Call string // the function, like release(uint256)
	Args []string
	Pool string // of the manager's signers; "" for its default

	signature string // of the event
	function  string // in its canonical form
}

// Intent is what an action wants to happen.
type Intent struct {
	To, Function, Pool string
	Args               []any
}

// check makes an action ready, and tells what is wrong with it.
func (a *Action) check(w *Watch) error {
	events := w.eventsOf(a.On)
	switch len(events) {
	case 0:
		return fmt.Errorf("an action is on %s: there is no such event", a.On)
	case 1:
	default:
		return fmt.Errorf("an action is on %s, and there are several: want the signature of one, like %s", a.On, events[0])
	}
	event := events[0]
	a.signature = event.String()
	if a.To != "" && event.TypeOf(a.To) != "address" {
		if _, err := parseAddress(a.To); strings.HasPrefix(a.To, "0x") && err != nil {
			return fmt.Errorf("the action on %s: %w", a.On, err)
		} else if err != nil {
			return fmt.Errorf("the action on %s goes to %q, which is neither an address nor an argument of that type", a.On, a.To)
		}
	}
	if err := a.checkCall(event); err != nil {
		return fmt.Errorf("the action on %s: %w", a.On, err)
	}
	return nil
}

// checkCall checks that an event has what the function needs. Its arguments have one word each, since of others a log may have only the hash.
func (a *Action) checkCall(event *decode.Signature) error {
	f, err := decode.Parse(a.Call)
	if err != nil {
		return err
	}
	a.function = f.String()
	names := f.Args()
	if len(names) != len(a.Args) {
		return fmt.Errorf("%s has %d arguments, not %d", f, len(names), len(a.Args))
	}
	for i, name := range names {
		typ, given := f.TypeOf(name), event.TypeOf(a.Args[i])
		if typ == "string" || typ == "bytes" || strings.ContainsAny(typ, "[(") {
			return fmt.Errorf("%s: type %s cannot be passed on", f, typ)
		}
		if given != typ {
			return fmt.Errorf("%s wants %s as argument %d, and %s of %s is %q", f, typ, i+1, a.Args[i], event.Name, given)
		}
	}
	return nil
}

// validateActions checks that events are acted on once, and only when that cannot be regretted.
func (w *Watch) validateActions() []error {
	var errs []error
	seen := map[string]bool{}
	for i := range w.Actions {
		a := &w.Actions[i]
		if err := a.check(w); err != nil {
			errs = append(errs, err)
		}
		if a.signature != "" && seen[a.signature] {
			errs = append(errs, fmt.Errorf("there are two actions on %s: one event triggers one", a.On))
		}
		seen[a.signature] = true
	}
	manager := false
	for _, sink := range w.Sinks {
		manager = manager || sinkKind(sink) == SinkManager
	}
	switch {
	case manager && len(w.Actions) == 0:
		errs = append(errs, errors.New("its sink is a transaction manager, and no action says what to do"))
	case !manager && len(w.Actions) > 0:
		errs = append(errs, errors.New("it has actions, and no sink manager:URL that would carry them out"))
	case manager && w.Depth == (Depth{}):
		errs = append(errs, errors.New("a transaction cannot be taken back when its event is: with actions it needs a depth"))
	}
	return errs
}

// ActionOn returns what an event triggers, nil for nothing. Removals trigger nothing, nor do backfills that were not asked to.
func (p *Plan) ActionOn(e *Event) (*Intent, error) {
	if e.Removed || e.Undecoded || e.Backfill != nil && !e.Backfill.Act {
		return nil, nil //nolint:nilnil // nothing is to be done
	}
	for i := range p.Watches {
		w := &p.Watches[i]
		if w.Name != e.Watch {
			continue
		}
		for j := range w.Actions {
			if a := &w.Actions[j]; a.signature == e.Signature {
				return a.intent(e)
			}
		}
	}
	return nil, nil //nolint:nilnil // nothing is to be done
}

func (a *Action) intent(e *Event) (*Intent, error) {
	var args map[string]json.RawMessage
	if err := json.Unmarshal(e.Args, &args); err != nil {
		return nil, fmt.Errorf("the action on %s: %w", a.On, err)
	}
	intent := &Intent{To: a.To, Function: a.function, Pool: a.Pool}
	switch {
	case a.To == "":
		intent.To = e.Address
	case !common.IsHexAddress(a.To):
		if err := json.Unmarshal(args[a.To], &intent.To); err != nil {
			return nil, fmt.Errorf("the action on %s: its argument %s: %w", a.On, a.To, err)
		}
	}
	for _, name := range a.Args {
		if args[name] == nil {
			return nil, fmt.Errorf("the action on %s: the event has no argument %s", a.On, name)
		}
		intent.Args = append(intent.Args, args[name])
	}
	return intent, nil
}
