package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"

	"lockstep/internal/must"
	"lockstep/internal/proctest"
)

const patience = 3 * time.Minute // for a cluster to be made, or a server to start, on a busy machine

// Server is one PostgreSQL server.
type Server struct {
	t    testing.TB
	bin  string
	dir  string
	port int
	as   *syscall.Credential
	base int // databases made so far

	pooler string // host:port of the pgbouncer; "": there is none

	mu      sync.Mutex // guards all below
	process *proctest.Process
}

// Start makes a cluster and runs its server. Settings are lines of postgresql.conf.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s := &Server{t: t, bin: programs(t), dir: room(t), as: someone(t)}
	if s.as != nil {
		must.Do(t, os.Chown(s.dir, int(s.as.Uid), int(s.as.Gid)))
	}
	initdb := s.command("initdb", "-D", s.data(), "-U", "lockstep", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("pgtest: initdb: %v\n%s", err, out)
	}
	file := must.Get(os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0))(t)
	for _, line := range append([]string{"max_connections = 200", "unix_socket_directories = ''", "listen_addresses = '127.0.0.1'"}, settings...) {
		must.Get(fmt.Fprintln(file, line))(t)
	}
	must.Do(t, file.Close())
	s.port = proctest.FreePort(t)
	must.Do(t, s.launch())
	t.Cleanup(s.Kill)
	return s
}

// room is a temporary directory that another user may enter; those of testing are for their
// owner alone.
func room(t testing.TB) string {
	dir := must.Get(os.MkdirTemp("", "pgtest"))(t) //nolint:usetesting // the other user may not enter t.TempDir
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// programs finds the newest installed version's folder.
func programs(t testing.TB) string {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		t.Fatal("pgtest: this test needs PostgreSQL's programs (initdb, postgres)")
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1])
}

// someone is the user that the programs run as where this process is root.
func someone(t testing.TB) *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(found.Uid, 10, 32)
		if err != nil {
			continue
		}
		gid, err := strconv.ParseUint(found.Gid, 10, 32)
		if err != nil {
			continue
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	t.Fatal("pgtest: PostgreSQL does not run as root, and there is no user postgres or nobody")
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + s.bin, "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	return cmd
}

func (s *Server) launch() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process, err = begin(s.command("postgres", "-D", s.data(), "-p", strconv.Itoa(s.port)), s.URL("postgres"))
	return err
}

// begin starts a program, and waits until a database answers; nil if it does not.
func begin(cmd *exec.Cmd, database string) (*proctest.Process, error) {
	db, err := sql.Open("pgx", database)
	if err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	defer func() { _ = db.Close() }()
	p, err := proctest.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.Until(ctx, patience, func() error { return db.PingContext(ctx) }); err != nil {
		p.Kill()
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	return p, nil
}

// Port returns the port.
func (s *Server) Port() int { return s.port }

// URL returns the URL of a database.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://lockstep@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// Database makes an empty database and returns its URL.
func (s *Server) Database() string {
	s.t.Helper()
	s.mu.Lock()
	s.base++
	name := fmt.Sprintf("test%d", s.base)
	s.mu.Unlock()
	s.exec("CREATE DATABASE " + name)
	return s.URL(name)
}

// exec runs a statement in the database that is always there.
func (s *Server) exec(statement string) {
	s.t.Helper()
	db := must.Get(sql.Open("pgx", s.URL("postgres")))(s.t)
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := db.ExecContext(ctx, statement); err != nil {
		s.t.Fatalf("pgtest: %s: %v", statement, err)
	}
}

// Dump returns all of a database as pg_dump writes it.
func (s *Server) Dump(url string) string {
	s.t.Helper()
	cmd := s.command("pg_dump", "--inserts", url)
	if _, err := os.Stat(cmd.Path); err != nil { // where the programs of a server are without those of a client
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_dump")
		if len(found) == 0 {
			s.t.Fatal("pgtest: this test needs PostgreSQL's pg_dump")
		}
		slices.Sort(found)
		cmd.Path, cmd.Err = found[len(found)-1], nil
	}
	text, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("pgtest: pg_dump: %v", err)
	}
	return string(text)
}

// Kill ends the server at once, as a crash does. Killing a dead server does nothing.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Stop ends the server in its fast way: connections are cut, what is committed is written.
func (s *Server) Stop() { s.end(syscall.SIGINT) }

func (s *Server) end(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return
	}
	_ = s.process.Cmd.Process.Signal(sig)
	<-s.process.Ended
	s.process = nil
}

// Promote stops the server and starts it as a standby, which then becomes the primary: a new timeline begins.
func (s *Server) Promote() {
	s.t.Helper()
	s.Stop()
	signal := filepath.Join(s.data(), "standby.signal")
	must.Do(s.t, os.WriteFile(signal, nil, 0o600))
	if s.as != nil {
		must.Do(s.t, os.Chown(signal, int(s.as.Uid), int(s.as.Gid)))
	}
	s.Restart()
	// An error if it is not promoted in time.
	s.exec(fmt.Sprintf("SELECT 1 / pg_promote(true, %d)::int", int(patience.Seconds())))
}

// Restart runs a server that has ended again. The processes of one that was killed end a
// moment after it, and before that a new one does not start.
func (s *Server) Restart() {
	s.t.Helper()
	for end := time.Now().Add(patience); ; <-time.After(50 * time.Millisecond) {
		err := s.launch()
		if err == nil {
			return
		}
		if !errors.Is(err, proctest.ErrEnded) || time.Now().After(end) {
			s.t.Fatal(err)
		}
	}
}
