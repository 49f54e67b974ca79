package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/joho/godotenv"
)

// Environ returns the process environment, completed by the nearest .env file from
// dir upwards. What the environment sets, even to nothing, the file cannot change.
// file is the path of the file that was used, or "".
func Environ(environ []string, dir string) (all []string, file string, err error) {
	file, ok := nearest(dir, ".env")
	if !ok {
		return environ, "", nil
	}
	values, err := godotenv.Read(file)
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

func nearest(dir, name string) (string, bool) {
	for {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}
