package config

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/joho/godotenv"
)

// emptyValue is a line that gives no value and a comment, as in templates: the comment is
// not the value.
var emptyValue = regexp.MustCompile(`(?m)^([ \t]*(?:export[ \t]+)?[A-Za-z_][A-Za-z0-9_.]*[ \t]*=)[ \t]*#.*$`)

// closeComment is a comment right behind a value without quotes, as in "KEY=60000000000# 600 HBARs", a line of
// hiero-json-rpc-relay's own template. A # amid other characters stays part of the value.
var closeComment = regexp.MustCompile(`(?m)^([ \t]*(?:export[ \t]+)?[A-Za-z_][A-Za-z0-9_.]*[ \t]*=[ \t]*[^'"\x60#\s][^\n]*?)(#(?:[ \t].*)?)$`)

// EnvFile is the name in the environment of a file that is read in place of .env.
const EnvFile = "LOCKSTEP_ENV_FILE"

// Environ returns the process environment, completed by the file that EnvFile names, or else by the .env file in
// dir, if there is one; those above it are somebody else's. What the environment sets, even to nothing, the file
// cannot change. file is the path of the file that was used, or "".
func Environ(environ []string, dir string) (all []string, file string, err error) {
	file = filepath.Join(dir, ".env")
	if named := valuesOf(environ)[EnvFile]; named != "" {
		if file = named; !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		if _, err := os.Stat(file); err != nil {
			return nil, file, fmt.Errorf("%s: %w", EnvFile, err)
		}
	} else if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return environ, "", nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, file, err
	}
	values, err := godotenv.UnmarshalBytes(closeComment.ReplaceAll(emptyValue.ReplaceAll(raw, []byte("$1")), []byte("$1 $2")))
	if err != nil {
		return nil, file, fmt.Errorf("%s: %w", file, err)
	}
	set := make(map[string]bool, len(environ))
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		set[name] = true
	}
	all = append(all, environ...)
	for name, value := range values {
		if !set[name] {
			all = append(all, name+"="+value)
		}
	}
	return all, file, nil
}
