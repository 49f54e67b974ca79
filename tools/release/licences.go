package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// module is one that a program is built with.
type module struct {
	Path, Version, Dir string
	Main               bool
}

// licences lists the modules that a program is built with, each with its licences, and has each text once. The module
// cache is where they come from. A licence that nobody has looked at yet is an error: no release passes it on unseen.
func (r *release) licences(ctx context.Context, p program) ([]byte, error) {
	modules, err := r.builtWith(ctx, p)
	if err != nil {
		return nil, err
	}
	var list, texts bytes.Buffer
	numbers := make(map[string]int) // by text
	for _, m := range modules {
		files, err := licenceFiles(m)
		if err != nil {
			return nil, err
		}
		var said []string
		for _, file := range files {
			raw, err := os.ReadFile(filepath.Join(m.Dir, file))
			if err != nil {
				return nil, err
			}
			text := strings.TrimSpace(strings.ReplaceAll(string(raw), "\r\n", "\n"))
			if strings.HasSuffix(file, ".go") {
				text, _, _ = strings.Cut(text, "\npackage ")
			}
			kind := licenceKind(file, text)
			if kind == "" {
				return nil, fmt.Errorf("%s: nobody knows the licence in %s", m.Path, file)
			}
			if numbers[text] == 0 {
				numbers[text] = len(numbers) + 1
				fmt.Fprintf(&texts, "\n%s\n[%d] %s\n\n%s\n", strings.Repeat("=", 80), numbers[text], kind, text)
			}
			said = append(said, fmt.Sprintf("%s [%d]", kind, numbers[text]))
		}
		fmt.Fprintf(&list, "%s\n    %s\n", strings.TrimSpace(m.Path+" "+m.Version), strings.Join(said, ", "))
	}
	return fmt.Appendf(nil, `The program is built with the modules below. Each is named with its licence and the
number of the text, which follows the list.

%s%s`, list.Bytes(), texts.Bytes()), nil
}

// builtWith returns the modules of other authors whose packages are in a program.
func (r *release) builtWith(ctx context.Context, p program) (modules []module, err error) {
	command := exec.CommandContext(ctx, "go", "list", "-deps", "-json=Module", "./cmd/lockstep")
	command.Dir, command.Stderr = r.root, os.Stderr
	command.Env = append(os.Environ(), "GOOS="+p.system, "GOARCH="+p.machine, "CGO_ENABLED=0", "GOFLAGS=-mod=readonly")
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var of struct{ Module *module }
		if err := decoder.Decode(&of); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if m := of.Module; m != nil && !m.Main && !slices.Contains(modules, *m) {
			modules = append(modules, *m)
		}
	}
	slices.SortFunc(modules, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	return append(modules, module{Path: "the Go standard library", Dir: strings.TrimSpace(string(root))}), err
}

// licenceFiles are the files at the top of a module that say what its licence is.
func licenceFiles(m module) (files []string, err error) {
	if m.Path == "github.com/holiman/bloomfilter/v2" {
		return []string{"bloomfilter.go"}, nil // which says it in its first comment; there is no file for it
	}
	entries, err := os.ReadDir(m.Dir)
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		if e.IsDir() || strings.Contains(name, "LOGO") { // of a picture, which is in no program
			continue
		}
		if strings.Contains(name, "LICENSE") || strings.Contains(name, "LICENCE") || strings.HasPrefix(name, "COPYING") || strings.HasPrefix(name, "NOTICE") {
			files = append(files, e.Name())
		}
	}
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s has no licence", m.Path)
	}
	return files, err
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
