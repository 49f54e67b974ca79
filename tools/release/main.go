// Command release makes what is published of a version: for each platform the static program, an
// archive, a Debian package and one for npm, one OCI image for all platforms, a list of what is built in, the
// licences of that, and SHA256SUMS over all of it. It needs dpkg-deb for the packages and no daemon. Run it in the
// folder tools; `make release` does.
//
// The same commit gives the same files, whoever makes them, if Go, dpkg-deb and the certificates of
// the machine are the same.
//
// # Words
//
//	platform   an operating system with a processor
//	materials  what is built into the program: modules and their versions
//	layout     an OCI image as files
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// release is one version with what all its files share.
type release struct {
	root, out string
	version   string // without the leading v
	made      time.Time
	programs  []program
}

// program is the executable for one platform.
type program struct {
	system, machine string // as Go names them
	path            string
	binary          []byte
	licences        []byte // of what it is built with
}

// file is one entry of an archive or of a layer.
type file struct {
	name    string // without a leading slash; a folder ends with one
	mode    int64
	owner   int // of user and group
	content []byte
}

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	root := flags.String("root", "..", "folder of the project")
	out := flags.String("out", "../dist", "folder to write to; what is in it goes")
	version := flags.String("version", "0.0.0-dev", "version, with or without a leading v")
	platforms := flags.String("platforms", "linux/amd64,linux/arm64", "platforms, separated by commas")
	certificates := flags.String("certificates", "/etc/ssl/certs/ca-certificates.crt", "certificates that the image trusts")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r := release{root: *root, out: *out, version: strings.TrimPrefix(*version, "v")}
	if r.version == "" || r.version[0] < '0' || r.version[0] > '9' {
		r.version = "0.0.0-" + r.version // packages want a digit first
	}
	var err error
	if r.made, err = moment(ctx, *root); err != nil {
		return err
	}
	if err := os.RemoveAll(*out); err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	for platform := range strings.SplitSeq(*platforms, ",") {
		p, err := r.build(ctx, platform)
		if err != nil {
			return err
		}
		r.programs = append(r.programs, p)
		for _, step := range []func(context.Context, program) error{r.archive, r.debian, r.materials} {
			if err := step(ctx, p); err != nil {
				return fmt.Errorf("%s: %w", platform, err)
			}
		}
	}
	if err := r.image(*certificates); err != nil {
		return err
	}
	if err := r.npm(); err != nil {
		return err
	}
	return r.sums()
}

// moment is when the release was made, as its files say: SOURCE_DATE_EPOCH, or the time of the commit.
func moment(ctx context.Context, root string) (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		command := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct")
		command.Dir = root
		out, err := command.Output()
		if err != nil {
			return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH is not set, and git does not know the time of the commit: %w", err)
		}
		text = strings.TrimSpace(string(out))
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(seconds, 0).UTC(), err
}

// build makes the static program for a platform.
func (r *release) build(ctx context.Context, platform string) (program, error) {
	system, machine, ok := strings.Cut(platform, "/")
	if !ok {
		return program{}, fmt.Errorf("%s is no platform", platform)
	}
	path, err := filepath.Abs(filepath.Join(r.out, r.name(system, machine), "lockstep"))
	if err != nil {
		return program{}, err
	}
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w -X main.version="+r.version, "-o", path, "./cmd/lockstep")
	command.Dir, command.Stderr = r.root, os.Stderr
	command.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+machine, "CGO_ENABLED=0")
	if err := command.Run(); err != nil {
		return program{}, err
	}
	p := program{system: system, machine: machine, path: path}
	if p.binary, err = os.ReadFile(path); err != nil {
		return p, err
	}
	p.licences, err = r.licences(ctx, p)
	return p, err
}

func (r *release) name(system, machine string) string {
	return "lockstep_" + r.version + "_" + system + "_" + machine
}

// documents are what comes with every package, below a folder: the documents with all that they lead to, alert rules, dashboards,
// examples, and files for systemd, compose and Helm.
func (r *release) documents(folder string) (list []file, err error) {
	for _, top := range []string{"LICENSE", "NOTICE", "*.md", "docs", "examples", "packaging", "clients"} {
		found, err := filepath.Glob(filepath.Join(r.root, top))
		if err != nil || len(found) == 0 {
			return nil, errors.Join(fmt.Errorf("there is no %s in %s", top, r.root), err)
		}
		for _, path := range found {
			err := filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
				switch {
				case err != nil:
					return err
				case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "dist"):
					return filepath.SkipDir
				case !entry.Type().IsRegular():
					return nil
				}
				name, err := filepath.Rel(r.root, path)
				if err != nil {
					return err
				}
				content, err := os.ReadFile(path)
				list = append(list, file{name: folder + filepath.ToSlash(name), mode: 0o644, content: content})
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// archive makes a .tar.gz with the program and its documents.
func (r *release) archive(_ context.Context, p program) error {
	name := r.name(p.system, p.machine)
	files, err := r.documents(name + "/")
	if err != nil {
		return err
	}
	return r.writeArchive(name+".tar.gz", append(files,
		file{name: name + "/lockstep", mode: 0o755, content: p.binary}, file{name: name + "/THIRD-PARTY-LICENSES", mode: 0o644, content: p.licences},
	))
}

// writeArchive writes a .tar.gz.
func (r *release) writeArchive(name string, files []file) error {
	packed, err := r.pack(files)
	if err != nil {
		return err
	}
	if packed, err = compress(packed); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, name), packed, 0o644)
}

// pack makes a tar archive. Folders that are not listed are made for root.
func (r *release) pack(files []file) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	made := map[string]bool{"./": true}
	for _, f := range files {
		made[f.name] = true
	}
	slices.SortStableFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	var all []file
	for _, f := range files {
		for i := range f.name {
			if folder := f.name[:i+1]; f.name[i] == '/' && !made[folder] {
				made[folder] = true
				all = append(all, file{name: folder, mode: 0o755})
			}
		}
		all = append(all, f)
	}
	for _, f := range all {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.content)), Uid: f.owner, Gid: f.owner, ModTime: r.made, Format: tar.FormatUSTAR,
		}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close() // writes the end of the archive
	return b.Bytes(), err
}

func compress(content []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	err := w.Close()
	return b.Bytes(), err
}

// sums writes SHA256SUMS over all files that are published.
func (r *release) sums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, e := range entries {
		if e.Type() != fs.FileMode(0) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%x  %s\n", sha256.Sum256(content), e.Name())
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(list.String()), 0o644)
}
