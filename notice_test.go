package lockstep_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var updateNotice = flag.Bool("update", false, "write NOTICE anew")

// module is one that the program is built with.
type module struct {
	Path, Version, Dir string
}

// TestNotice holds NOTICE to the modules that the program for Linux is built with: it lists
// each with its licences, and has their texts. The module cache is where they come from.
func TestNotice(t *testing.T) {
	want := notice(t, builtWith(t))
	if *updateNotice {
		if err := os.WriteFile("NOTICE", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile("NOTICE")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("NOTICE is stale; run make generate (or go test . -run TestNotice -update): it has %d bytes, want %d", len(got), len(want))
	}
}

// builtWith returns the modules of other people whose packages are in the program.
func builtWith(t *testing.T) (modules []module) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=Module", "./cmd/lockstep")
	command.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=-mod=readonly")
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Module *struct {
				module
				Main bool
			}
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Module != nil && !p.Module.Main && !slices.Contains(modules, p.Module.module) {
			modules = append(modules, p.Module.module)
		}
	}
	slices.SortFunc(modules, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	if len(modules) == 0 {
		t.Fatal("no modules")
	}
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return append(modules, module{Path: "the Go standard library", Dir: strings.TrimSpace(string(root))})
}

// notice writes the list and the texts, each text once.
func notice(t *testing.T, modules []module) []byte {
	t.Helper()
	var list, texts bytes.Buffer
	numbers := make(map[string]int) // by text
	for _, m := range modules {
		var said []string
		for _, file := range licenceFiles(t, m) {
			raw, err := os.ReadFile(filepath.Join(m.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			text := strings.TrimSpace(strings.ReplaceAll(string(raw), "\r\n", "\n"))
			if strings.HasSuffix(file, ".go") {
				text, _, _ = strings.Cut(text, "\npackage ")
			}
			kind := licenceKind(file, text)
			if kind == "" {
				t.Errorf("%s: nobody knows the licence in %s", m.Path, file)
			}
			if numbers[text] == 0 {
				numbers[text] = len(numbers) + 1
				fmt.Fprintf(&texts, "\n%s\n[%d] %s\n\n%s\n", strings.Repeat("=", 80), numbers[text], kind, text)
			}
			said = append(said, fmt.Sprintf("%s [%d]", kind, numbers[text]))
		}
		name := m.Path
		if m.Version != "" {
			name += " " + m.Version
		}
		fmt.Fprintf(&list, "%s\n    %s\n", name, strings.Join(said, ", "))
	}
	return fmt.Appendf(nil, `Lockstep is licensed under the Apache License, version 2.0 (see LICENSE).

The program is built with the modules below. Each is named with its licence and the
number of the text, which follows the list.

%s%s`, list.Bytes(), texts.Bytes())
}

// licenceFiles are the files at the top of a module that say what its licence is.
func licenceFiles(t *testing.T, m module) (files []string) {
	t.Helper()
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		if strings.Contains(name, "LOGO") {
			continue // of a picture, which is in no program
		}
		if !e.IsDir() && (strings.Contains(name, "LICENSE") || strings.Contains(name, "LICENCE") || strings.HasPrefix(name, "COPYING") || strings.HasPrefix(name, "NOTICE")) {
			files = append(files, e.Name())
		}
	}
	if m.Path == "github.com/holiman/bloomfilter/v2" {
		return []string{"bloomfilter.go"} // which says it in its first comment; there is no file for it
	}
	if len(files) == 0 {
		t.Errorf("%s has no licence", m.Path)
	}
	return files
}

// licenceKind tells a licence by what it says, in the short names of SPDX; "" for one that
// is not known.
func licenceKind(file, text string) string {
	says := func(phrase string) bool {
		return strings.Contains(strings.Join(strings.Fields(strings.ToLower(text)), " "), strings.ToLower(phrase))
	}
	switch {
	case strings.HasPrefix(strings.ToUpper(file), "NOTICE"):
		return "notice"
	case says("GNU LESSER GENERAL PUBLIC LICENSE Version 3"):
		return "LGPL-3.0"
	case says("GNU GENERAL PUBLIC LICENSE Version 3"):
		return "GPL-3.0"
	case says("Apache License Version 2.0"), says("licensed under the Apache License, Version 2.0"):
		return "Apache-2.0"
	case says("Mozilla Public License Version 2.0"), says("Mozilla Public License, version 2.0"):
		return "MPL-2.0"
	case says("dedicate any and all copyright interest in this code to the public domain"), says("the author disclaims copyright to this source code"), says("dedicated to the public domain"):
		return "blessing" // SQLite's own: the public domain
	case says("Permission is hereby granted, free of charge"), says("MIT license"):
		return "MIT"
	case says("for any purpose with or without fee is hereby granted"):
		return "ISC"
	case says("Redistribution and use in source and binary forms") && says("neither the name"):
		return "BSD-3-Clause"
	case says("Redistribution and use in source and binary forms"):
		return "BSD-2-Clause"
	}
	return ""
}

// A licence that nobody has looked at fails the test instead of passing unseen.
func TestLicenceKinds(t *testing.T) {
	for text, want := range map[string]string{
		"Apache License\n   Version 2.0": "Apache-2.0", "you owe us": "",
		"Redistribution and use in source and binary forms ... Neither the name of": "BSD-3-Clause",
		"Permission is hereby granted, free of\ncharge":                             "MIT",
	} {
		if got := licenceKind("LICENSE", text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
