package main

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"lockstep/e2e/harness"
)

// A row with -profile leaves a CPU and an allocation profile of each relay and load, and these name functions of ours.
func TestRowIsProfiled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	t.Parallel()
	l := &lab{progress: t.Output(), runs: 1, profiles: t.TempDir()}
	if err := l.open(harness.Program(t), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	defer l.close()
	list, err := choose("burst")
	if err != nil {
		t.Fatal(err)
	}
	if tab := l.one(t.Context(), list[0]); tab.Failure != "" {
		t.Fatal(tab.Failure)
	}
	for _, kind := range []string{"cpu", "allocs"} {
		files, err := filepath.Glob(filepath.Join(l.profiles, "*."+kind+".pprof"))
		if err != nil || len(files) == 0 {
			t.Errorf("there is no profile of %s: %v", kind, err)
		}
		named := false
		for _, file := range files {
			// The names of functions stand in a profile as they are, those of what took part and of nothing else.
			named = named || regexp.MustCompile(`lockstep/[a-z/]+\.\(?[*A-Za-z]`).Match(unpack(t, file))
		}
		if !named {
			t.Errorf("no function of ours is in %q", files)
		}
	}
}

func unpack(t *testing.T, path string) []byte {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	content, err := io.ReadAll(packed)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return content
}
