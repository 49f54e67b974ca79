package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const control = `Package: lockstep
Version: %s
Architecture: %s
Maintainer: The Lockstep authors <lockstep@localhost>
Section: net
Priority: optional
Installed-Size: %d
Recommends: ca-certificates
Description: JSON-RPC relay for Hedera that keeps each sender's order
 Lockstep is a JSON-RPC relay, a transaction manager and event watchers for
 Hedera, and a one-process Hedera to develop against.
`

// afterwards tells systemd of the unit. It starts nothing: a relay needs its settings first. The systemd of this machine is
// not that of another root file system, into which dpkg --root installs.
const afterwards = `#!/bin/sh
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
`

// before stops the relay when the package goes.
const before = `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then systemctl disable --now lockstep.service || true; fi
`

// debian makes a package for Debian and its relatives.
func (r *release) debian(ctx context.Context, p program) error {
	tree, err := os.MkdirTemp("", "lockstep-deb")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tree)
	files, err := r.documents("usr/share/doc/lockstep/")
	if err != nil {
		return err
	}
	files = append(files,
		file{name: "DEBIAN/conffiles", mode: 0o644, content: []byte("/etc/lockstep/lockstep.env\n")},
		file{name: "DEBIAN/postinst", mode: 0o755, content: []byte(afterwards)},
		file{name: "DEBIAN/postrm", mode: 0o755, content: []byte(afterwards)},
		file{name: "DEBIAN/prerm", mode: 0o755, content: []byte(before)},
		file{name: "usr/bin/lockstep", mode: 0o755, content: p.binary},
		file{name: "usr/share/doc/lockstep/THIRD-PARTY-LICENSES", mode: 0o644, content: p.licences},
	)
	for _, s := range []struct {
		from, to string
		mode     int64
	}{
		{"packaging/lockstep.service", "lib/systemd/system/lockstep.service", 0o644},
		{"packaging/lockstep.env", "etc/lockstep/lockstep.env", 0o600}, // keys will be in it
		{"LICENSE", "usr/share/doc/lockstep/copyright", 0o644},
	} {
		content, err := os.ReadFile(filepath.Join(r.root, s.from))
		if err != nil {
			return err
		}
		files = append(files, file{name: s.to, mode: s.mode, content: content})
	}
	size := 0
	for _, f := range files {
		size += len(f.content)
	}
	version := strings.ReplaceAll(r.version, "-", "~") // a hyphen means a revision of the packaging
	files = append(files, file{name: "DEBIAN/control", mode: 0o644, content: fmt.Appendf(nil, control, version, p.machine, size>>10)})
	for _, f := range files {
		if err := r.place(tree, f); err != nil {
			return err
		}
	}
	to := filepath.Join(r.out, "lockstep_"+r.version+"_"+p.machine+".deb")
	command := exec.CommandContext(ctx, "dpkg-deb", "--root-owner-group", "-Zgzip", "--build", tree, to)
	command.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.made.Unix()))
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("dpkg-deb: %w: %s", err, out)
	}
	return nil
}

// place writes a file below a folder, with its mode whatever the umask is.
func (r *release) place(tree string, f file) error {
	path := filepath.Join(tree, filepath.FromSlash(f.name))
	for folder := filepath.Dir(path); ; folder = filepath.Dir(folder) {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		if err := os.Chmod(folder, 0o755); err != nil {
			return err
		}
		if folder == tree {
			break
		}
	}
	if err := os.WriteFile(path, f.content, 0o600); err != nil {
		return err
	}
	if err := os.Chmod(path, os.FileMode(f.mode)); err != nil {
		return err
	}
	return os.Chtimes(path, time.Time{}, r.made)
}
