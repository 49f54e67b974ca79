package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"lockstep/devnet"
)

// stopTime is how long a command may take to end after it was asked to.
const stopTime = 5 * time.Second

// splitCommand separates the flags from the command that stands after "--".
func splitCommand(args []string) (flags, command []string) {
	i := slices.Index(args, "--")
	if i < 0 {
		return args, nil
	}
	return args[:i], args[i+1:]
}

// runCommand serves the network for as long as a command runs, and ends as the command
// ends. The command finds the network in its environment.
func runCommand(ctx context.Context, serve func(context.Context) error, ready ready, command []string, std streams) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() {
		served <- serve(ctx)
		stop() // without the network the command has nothing to do
	}()
	c := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // it is the user's own command
	c.Stdin, c.Stdout, c.Stderr = std.in, std.out, std.err
	c.Env = append(slices.Clone(std.env), ready.environ()...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = stopTime
	err := c.Run()
	stop()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		err = exit{code: max(ended.ExitCode(), 1), error: fmt.Errorf("%s: %w", command[0], err)}
	}
	return errors.Join(err, <-served)
}

// environ is where a command finds the network, under the names that tools of the
// ecosystem read.
func (r ready) environ() []string {
	environ := []string{
		"RPC_URL=" + r.RPC, "ETH_RPC_URL=" + r.RPC, "WS_URL=" + r.WS, "MIRROR_NODE_URL=" + r.Mirror, "CONSENSUS_NODE=" + r.Consensus,
		fmt.Sprintf("CHAIN_ID=%d", r.ChainID), "OPERATOR_ID=" + devnet.OperatorID(), "OPERATOR_KEY=" + devnet.OperatorKey(),
	}
	if r.NEAR != nil {
		environ = append(environ, "NEAR_RPC_URL="+r.NEAR.RPC)
	}
	return environ
}
