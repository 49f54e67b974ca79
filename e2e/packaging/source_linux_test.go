package packaging

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/internal/must"
)

// static are settings of Go with which a program is compiled as for a release. What tests of the release have compiled is used again.
var static = []string{"CGO_ENABLED=0", "GOFLAGS=-trimpath"}

// build runs a program in the folder of the project.
func build(t *testing.T, settings []string, name string, args ...string) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the program")
	}
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir = "../.."
	command.Env = slices.Concat(os.Environ(), static, settings)
	if text, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, text)
	}
}

// files are all files of a folder, with their modes.
func files(t *testing.T, dir string) (found []string) {
	t.Helper()
	must.Do(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		found = append(found, info.Mode().String()+" "+strings.TrimPrefix(path, dir+"/"))
		return err
	}))
	return found
}

// go install puts the program where GOBIN says.
func TestGoInstall(t *testing.T) {
	dir := t.TempDir()
	build(t, []string{"GOBIN=" + dir}, "go", "install", "./cmd/lockstep")
	if got := output(t, filepath.Join(dir, "lockstep"), "version"); got != "lockstep dev\n" {
		t.Errorf("the program says %q", got)
	}
	if got := files(t, dir); len(got) != 1 {
		t.Errorf("go install has made %q", got)
	}
}

// make install puts the program, and nothing else, where PREFIX and DESTDIR say.
func TestMakeInstall(t *testing.T) {
	dir := t.TempDir()
	build(t, nil, "make", "install", "PREFIX=/opt/own", "DESTDIR="+dir, "VERSION="+version, "BINARY="+filepath.Join(t.TempDir(), "lockstep"))
	wantVersion(t, output(t, filepath.Join(dir, "opt/own/bin/lockstep"), "version"))
	if got := files(t, dir); !slices.Equal(got, []string{"-rwxr-xr-x opt/own/bin/lockstep"}) {
		t.Errorf("make install has made %q", got)
	}
}
