package lockstep_test

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	pathName  = regexp.MustCompile("`([\\w/]+/[\\w.]+\\.(?:go|lua|md|proto|json))`")
	bareName  = regexp.MustCompile("`(\\w+\\.(?:go|json))`")
	namesOf   = regexp.MustCompile("`([\\w/]+\\.(?:go|lua))`(?:: | \\()((?:`\\w+`(?:, | and )?)+)") // a file: the functions in it
	settingOf = regexp.MustCompile("`([A-Z_]+)` in `([\\w/]+\\.go)`")
	nameOf    = regexp.MustCompile("`([a-z]\\w+)` in `([\\w/]+/\\w+\\.go)`")
	quoted    = regexp.MustCompile("`(\\w+)`")
)

// missingNames are what a text in the form of ARCHITECTURE.md names and does not exist.
func missingNames(text string, fileOf func(string) string) (missing []string) {
	for _, m := range append(pathName.FindAllStringSubmatch(text, -1), bareName.FindAllStringSubmatch(text, -1)...) {
		if fileOf(m[1]) == "" {
			missing = append(missing, "the file "+m[1])
		}
	}
	inFile := func(file, pattern, name string) {
		if !regexp.MustCompile(pattern).MatchString(fileOf(file)) {
			missing = append(missing, name+" in "+file)
		}
	}
	function := func(name string) string {
		return `(?m)^(func (\([^)]*\) )?|local function |function )` + name + `\b`
	}
	for _, m := range namesOf.FindAllStringSubmatch(text, -1) {
		for _, name := range quoted.FindAllStringSubmatch(m[2], -1) {
			inFile(m[1], function(name[1]), name[1])
		}
	}
	for _, m := range nameOf.FindAllStringSubmatch(text, -1) {
		inFile(m[2], function(m[1]), m[1])
	}
	for _, m := range settingOf.FindAllStringSubmatch(text, -1) {
		inFile(m[2], `env:"`+m[1]+`"`, m[1])
	}
	return missing
}

// Every file, function and setting that ARCHITECTURE.md names is where it says.
func TestArchitectureNamesWhatExists(t *testing.T) {
	bare := map[string]string{}
	for _, p := range packages(t) {
		for _, files := range [][]string{p.GoFiles, p.TestGoFiles, p.XTestGoFiles} {
			for _, file := range files {
				bare[file] = "is there"
			}
		}
	}
	fileOf := func(name string) string {
		if text, err := os.ReadFile(name); err == nil {
			return string(text)
		}
		if !strings.Contains(name, "/") && path.Ext(name) == ".json" {
			text, _ := os.ReadFile("ethapi/" + name) // the one that it names
			return string(text)
		}
		return bare[name]
	}
	for _, missing := range missingNames(read(t, "ARCHITECTURE.md"), fileOf) {
		t.Errorf("ARCHITECTURE.md names what does not exist: %s", missing)
	}
}

// The test above finds what is wrong.
func TestMissingNamesAreFound(t *testing.T) {
	files := map[string]string{"a/b.go": "func (l *lane) end() {\nfunc admit(\n  X int `env:\"ROOM\"`", "c.go": "x"}
	fileOf := func(name string) string { return files[name] }
	for text, want := range map[string]int{
		"`a/b.go`: `end`, `admit`": 0, "`a/b.go` (`admit`)": 0, "`ROOM` in `a/b.go`": 0, "`admit` in `a/b.go`, `c.go`": 0,
		"`a/b.go`: `end`, `gone`": 1, "`a/b.go` (`gone`)": 1, "`GONE` in `a/b.go`": 1, "`gone` in `a/b.go`": 1, "`a/d.go`": 1, "`d.go`": 1,
	} {
		if got := missingNames(text, fileOf); len(got) != want {
			t.Errorf("%s: %q", text, got)
		}
	}
}
