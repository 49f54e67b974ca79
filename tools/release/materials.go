package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// component is one of what is built in, as CycloneDX has it.
type component struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	URL     string `json:"purl"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// materials writes which modules the program is built from, in the form of CycloneDX. It asks the
// program itself.
func (r *release) materials(_ context.Context, p program) error {
	info, err := buildinfo.ReadFile(p.path)
	if err != nil {
		return err
	}
	self := component{"application", "lockstep", r.version, "pkg:golang/lockstep@" + r.version, []hash{{"SHA-256", fmt.Sprintf("%x", sha256.Sum256(p.binary))}}}
	parts := []component{{"library", "stdlib", info.GoVersion, "pkg:golang/stdlib@" + info.GoVersion, nil}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, component{"library", m.Path, m.Version, "pkg:golang/" + m.Path + "@" + m.Version, nil})
	}
	text, err := json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": parts,
		"metadata": map[string]any{"timestamp": r.made.Format(time.RFC3339), "component": self},
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, r.name(p.system, p.machine)+".cdx.json"), append(text, '\n'), 0o644)
}
