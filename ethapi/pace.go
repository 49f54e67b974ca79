package ethapi

import (
	"context"
	"math"

	"lockstep/internal/relay/capacity"
)

// pace makes a simulation share the processor and the memory with others. It leaves the processor while it reads
// the state, and offers it at each call. Memory is counted by gas: the used gas bounds the memory that a call can
// have taken.
type pace struct {
	ctx     context.Context
	permit  *capacity.Permit
	holding *capacity.Holding

	gas    []uint64 // of the open frames, outermost first
	sums   []int    // what the frames before each may hold
	frames int      // bytes taken for frames
	held   int      // bytes taken for all else
}

// frame is called where a frame begins.
func (p *pace) frame(depth int, gas uint64) error {
	depth = min(depth, len(p.gas))
	p.gas, p.sums = p.gas[:depth], p.sums[:depth]
	before := 0
	if depth > 0 {
		before = p.sums[depth-1] + evmMemory(p.gas[depth-1]-min(gas, p.gas[depth-1]))
	}
	p.gas, p.sums = append(p.gas, gas), append(p.sums, before)
	if more := before + evmMemory(gas) - p.frames; more > 0 {
		if err := p.holding.Take(more); err != nil {
			return err
		}
		p.frames += more
	}
	return p.permit.Yield(p.ctx)
}

// hold counts what outlives a call.
func (p *pace) hold(bytes int) error {
	if err := p.holding.Take(bytes); err != nil {
		return err
	}
	p.held += bytes
	return nil
}

// finish ends the run; the result is written after it.
func (p *pace) finish() {
	p.holding.Give(p.frames)
	p.frames, p.gas, p.sums = 0, nil, nil
}

// leave ends the simulation.
func (p *pace) leave() {
	p.finish()
	p.holding.Give(p.held)
	p.held = 0
	p.permit.Leave()
}

// evmMemory is the maximum number of bytes of a frame that has used that much gas: n words cost 3n + n²/512. It
// counts as much again for the data for other frames.
func evmMemory(gas uint64) int {
	words := 256 * (math.Sqrt(9+float64(gas)/128) - 3)
	return int(2 * 32 * words)
}

// away runs f while others have the processor.
func away[T any](p *pace, f func() (T, error)) (result T, err error) {
	if err := p.permit.Pause(); err != nil {
		return result, err
	}
	result, err = f()
	if back := p.permit.Resume(p.ctx); back != nil {
		return result, back
	}
	return result, err
}
