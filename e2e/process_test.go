package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startLimit = 30 * time.Second // generous: the machine may be building something else
	stopLimit  = 15 * time.Second
)

// process is one running program of ours.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout *bufio.Reader
	stderr *tail
	ended  chan struct{} // closed when the process is gone
	err    error         // why it ended; read after ended
}

// start runs the program. It is stopped when the test ends, whatever happens.
func start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, stderr: &tail{limit: 64 << 10}, ended: make(chan struct{})}
	p.cmd = exec.Command(useProgram(t), args...)
	p.cmd.Dir = t.TempDir() // no .env file of the developer's
	p.cmd.Env = append(bareEnvironment(), env...)
	p.cmd.Stderr = p.stderr
	p.cmd.WaitDelay = time.Second // a child of the program's must not keep it alive for us
	out, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout = writer
	p.stdout = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.stop()
		out.Close()
		if t.Failed() {
			t.Logf("%s: the end of its log:\n%s", strings.Join(args, " "), p.stderr)
		}
	})
	return p
}

// bareEnvironment keeps the settings of the developer's shell away from the program.
func bareEnvironment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "TMPDIR=" + os.TempDir()}
}

// readLine gives the next line of stdout.
func (p *process) readLine() string {
	p.t.Helper()
	type result struct {
		line string
		err  error
	}
	lines := make(chan result, 1)
	go func() {
		line, err := p.stdout.ReadString('\n')
		lines <- result{line, err}
	}()
	select {
	case got := <-lines:
		if got.err != nil {
			<-p.ended
			p.t.Fatalf("%s ended before it was ready: %v\n%s", p.cmd.Args, p.err, p.stderr)
		}
		return got.line
	case <-time.After(startLimit):
		p.t.Fatalf("%s said nothing for %v\n%s", p.cmd.Args, startLimit, p.stderr)
	}
	return ""
}

// readReady decodes the line that says the program is ready.
func (p *process) readReady(into any) {
	p.t.Helper()
	line := p.readLine()
	if err := json.Unmarshal([]byte(line), into); err != nil {
		p.t.Fatalf("the ready line is not JSON: %v\n%s", err, line)
	}
	go io.Copy(io.Discard, p.stdout) //nolint:errcheck // only so that the program never blocks on a full pipe
}

// signal sends a signal to this one process.
func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// wait gives the exit code.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(stopLimit):
		p.t.Fatalf("%s is still running after %v", p.cmd.Args, stopLimit)
		return -1
	}
}

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(stopLimit):
		p.t.Errorf("%s ignored SIGTERM for %v", p.cmd.Args, stopLimit)
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// tail keeps the last bytes written to it.
type tail struct {
	mu    sync.Mutex
	limit int
	text  []byte
}

func (w *tail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, b...)
	if over := len(w.text) - w.limit; over > 0 {
		w.text = bytes.Clone(w.text[over:])
	}
	return len(b), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.text)
}
