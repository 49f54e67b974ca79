package ethapi

import (
	"context"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"lockstep/internal/eth"
	"lockstep/internal/hedera"
	"lockstep/mirror"
)

// frameLog is a log within a call frame. Position is how many calls the frame had made
// before it.
type frameLog struct {
	Address  common.Address `json:"address"`
	Topics   []common.Hash  `json:"topics"`
	Data     hexutil.Bytes  `json:"data"`
	Index    hexutil.Uint64 `json:"index"`
	Position hexutil.Uint64 `json:"position"`
}

func topicsOf(l *eth.Log) []common.Hash {
	if l.Topics == nil {
		return []common.Hash{}
	}
	return l.Topics
}

// placeLogs puts the logs of a transaction into the frames that left them. The mirror node tells only the
// contract of each log. If more than one frame could have left a log, or the frame made calls of its own, the
// instructions decide. Without them, or for the logs of a system contract, the first fitting frame gets the log.
func (a *API) placeLogs(ctx context.Context, s subject, root *callFrame) error {
	byAddress := make(map[common.Address][]*callFrame)
	root.eachLive(func(f *callFrame) {
		if f.context != nil {
			byAddress[*f.context] = append(byAddress[*f.context], f)
		}
	})
	if !certain(byAddress, s.logs) && a.cfg.Debug.OpcodeLogger {
		placed := false
		err := a.replay(ctx, s.hash, mirror.OpcodesQuery{}, func(trace *mirror.Opcodes) error {
			placed = placeBySteps(root, trace.Steps, s.logs)
			return nil
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !refusedReplay(err) {
			return err
		}
		if placed {
			return nil
		}
	}
	services := systemFrame(root)
	for _, l := range s.logs {
		frame := services
		if fitting := byAddress[l.Address]; len(fitting) > 0 {
			frame = fitting[0]
		}
		frame.add(l, 0)
	}
	return nil
}

// eachLive visits the frames whose effects lasted, in the order of the calls.
func (c *callFrame) eachLive(visit func(*callFrame)) {
	if c.undone {
		return
	}
	visit(c)
	for _, call := range c.Calls {
		call.eachLive(visit)
	}
}

// certain tells whether the address of each log is enough to place it.
func certain(byAddress map[common.Address][]*callFrame, logs []*eth.Log) bool {
	for _, l := range logs {
		if fitting := byAddress[l.Address]; len(fitting) != 1 || len(fitting[0].Calls) > 0 {
			return false
		}
	}
	return true
}

// systemFrame is the first call of a system contract, whose logs are those of tokens;
// the root if there is none.
func systemFrame(root *callFrame) *callFrame {
	found := root
	root.eachLive(func(f *callFrame) {
		if found == root && f.To.Address != nil && (*f.To.Address == hedera.Entity(tokenService).LongZero() || *f.To.Address == hedera.Entity(scheduleService).LongZero()) {
			found = f
		}
	})
	return found
}

// walker follows the instructions through the tree of calls.
type walker struct {
	path  []walked
	found []place
}

type walked struct {
	frame *callFrame
	calls int // calls that it has made
}

type place struct {
	frame    *callFrame
	position int
}

// placeBySteps places logs by the instructions that left them. It places none unless
// instructions, calls and logs fit together.
func placeBySteps(root *callFrame, steps []mirror.Step, logs []*eth.Log) bool {
	if len(steps) == 0 {
		return false
	}
	w := walker{path: []walked{{frame: root}}}
	top := steps[0].Depth
	for i := range steps {
		if !w.step(&steps[i], steps[i].Depth-top) {
			return false
		}
	}
	if len(w.found) != len(logs) {
		return false
	}
	for i, p := range w.found {
		if p.frame.context == nil || *p.frame.context != logs[i].Address {
			return false
		}
	}
	for i, p := range w.found {
		p.frame.add(logs[i], p.position)
	}
	return true
}

func (w *walker) step(s *mirror.Step, depth int) bool {
	switch {
	case depth < 0 || depth > len(w.path):
		return false
	case depth == len(w.path):
		caller := &w.path[depth-1]
		if caller.calls == 0 || caller.calls > len(caller.frame.Calls) {
			return false
		}
		w.path = append(w.path, walked{frame: caller.frame.Calls[caller.calls-1]})
	}
	w.path = w.path[:depth+1]
	current := &w.path[depth]
	switch s.Op {
	case "CALL", "CALLCODE", "DELEGATECALL", "STATICCALL", "CREATE", "CREATE2":
		current.calls++
	default:
		if strings.HasPrefix(s.Op, "LOG") && !current.frame.undone {
			w.found = append(w.found, place{current.frame, current.calls})
		}
	}
	return true
}
