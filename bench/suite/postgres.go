package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"lockstep/internal/ledger"
)

// postgres is one PostgreSQL server, durable as by default.
type postgres struct {
	*process
	dir, url string
}

// postgresServer makes a cluster and starts its server. PostgreSQL refuses to run as root; there it runs as the user postgres, or nobody.
func (l *lab) postgresServer(ctx context.Context) (*postgres, error) {
	initdb, err := exec.LookPath("initdb")
	if err != nil {
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is right
		if len(found) == 0 {
			return nil, errors.New("initdb, a program of PostgreSQL, is missing; make setup installs it")
		}
		initdb = slices.MaxFunc(found, func(a, b string) int { return len(a) - len(b) })
	}
	as, err := notRoot()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "lockstep-suite-postgres-")
	if err != nil {
		return nil, err
	}
	p := &postgres{dir: dir}
	if err := p.launch(ctx, l, initdb, as); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *postgres) launch(ctx context.Context, l *lab, initdb string, as *syscall.Credential) error {
	if as != nil {
		if err := os.Chown(p.dir, int(as.Uid), int(as.Gid)); err != nil {
			return err
		}
	}
	data := filepath.Join(p.dir, "data")
	cluster := exec.CommandContext(ctx, initdb, "-D", data, "-U", "lockstep", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	cluster.Dir, cluster.SysProcAttr = p.dir, &syscall.SysProcAttr{Credential: as}
	if out, err := cluster.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	p.process, err = l.startAs(as, p.dir, "postgres", nil, filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data, "-p", port,
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "max_connections=200")
	if err != nil {
		return err
	}
	p.url = "postgres://lockstep@127.0.0.1:" + port + "/postgres?sslmode=disable"
	return poll(ctx, startLimit, 50*time.Millisecond, func() error {
		db, err := ledger.Open(ctx, p.url)
		if err != nil {
			return err
		}
		return db.Close()
	})
}

func (p *postgres) close() {
	if p.process != nil {
		p.kill()
	}
	_ = os.RemoveAll(p.dir) // it is in the directory for temporary files
}

// notRoot is who PostgreSQL runs as; nil for who we are.
func notRoot() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
		if uidErr == nil && gidErr == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody")
}
