package pgtest

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"

	"lockstep/internal/must"
	"lockstep/internal/proctest"
)

// poolSize is how many sessions of PostgreSQL the clients of a pooler share. It is small, so that one client's transactions
// come to several sessions, and one session has transactions of several clients.
const poolSize = 4

// Pooled returns the URL of a database through a pgbouncer in transaction mode, which it starts before the server at the first call. It ends with the test.
func (s *Server) Pooled(database string) string {
	s.t.Helper()
	at := must.Get(url.Parse(database))(s.t)
	if s.pooler == "" {
		port := proctest.FreePort(s.t)
		must.Do(s.t, s.pool(port, at.Path))
		s.pooler = fmt.Sprintf("127.0.0.1:%d", port)
	}
	at.Host = s.pooler
	return at.String()
}

func pgbouncer() (string, error) {
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return path, nil
	}
	const path = "/usr/sbin/pgbouncer" // Debian keeps it off the PATH of users
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("pgtest: this test needs pgbouncer: %w", err)
	}
	return path, nil
}

// pool starts the pooler and waits until a database answers through it.
func (s *Server) pool(port int, database string) error {
	path, err := pgbouncer()
	if err != nil {
		return err
	}
	file := filepath.Join(s.dir, fmt.Sprintf("pgbouncer%d.ini", port))
	// Its clients say no password, as those of the server.
	settings := fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%d user=lockstep\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\n"+
		"unix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = %d\nmax_client_conn = 500\n", s.port, port, poolSize)
	if err := os.WriteFile(file, []byte(settings), 0o644); err != nil { //nolint:gosec // the user of the programs reads it
		return fmt.Errorf("pgtest: %w", err)
	}
	cmd := s.command("pgbouncer", file)
	cmd.Path, cmd.Err = path, nil
	pooler, err := begin(cmd, fmt.Sprintf("postgres://lockstep@127.0.0.1:%d%s?sslmode=disable&default_query_exec_mode=exec", port, database))
	if err != nil {
		return err
	}
	s.t.Cleanup(pooler.Kill)
	return nil
}
