package main

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
)

// processors are the names that npm has for Go's.
var processors = map[string]string{"amd64": "x64"}

// npm makes packages for npm: lockstep-dev, which `npx` starts, and for each platform one with the program. lockstep-dev
// names those as optional, and npm installs the one whose os and cpu are the machine's.
func (r *release) npm() error {
	programs := map[string]string{}
	for _, p := range r.programs {
		name := "lockstep-dev-" + p.system + "-" + p.machine
		programs[name] = r.version
		cpu := cmp.Or(processors[p.machine], p.machine)
		err := r.npmPackage(name, map[string]any{
			"description": "The program of lockstep-dev for " + p.system + " on " + p.machine + ".", "os": []string{p.system}, "cpu": []string{cpu}, "preferUnplugged": true,
		}, file{name: "lockstep", mode: 0o755, content: p.binary}, file{name: "THIRD-PARTY-LICENSES", mode: 0o644, content: p.licences})
		if err != nil {
			return err
		}
	}
	var files []file
	for name, mode := range map[string]int64{"lockstep-dev.mjs": 0o755, "README.md": 0o644} {
		content, err := os.ReadFile(filepath.Join(r.root, "packaging", "npm", name))
		if err != nil {
			return err
		}
		files = append(files, file{name: name, mode: mode, content: content})
	}
	return r.npmPackage("lockstep-dev", map[string]any{
		"description": "A Hedera to develop against, in one process.", "bin": map[string]string{"lockstep-dev": "lockstep-dev.mjs"}, "type": "module",
		"engines": map[string]string{"node": ">=18"}, "optionalDependencies": programs,
	}, files...)
}

// npmPackage writes one package, as `npm pack` does.
func (r *release) npmPackage(name string, about map[string]any, files ...file) error {
	about["name"], about["version"], about["license"] = name, r.version, "Apache-2.0"
	manifest, err := json.MarshalIndent(about, "", "  ")
	if err != nil {
		return err
	}
	licence, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return err
	}
	files = append(files, file{name: "package.json", mode: 0o644, content: append(manifest, '\n')}, file{name: "LICENSE", mode: 0o644, content: licence})
	for i := range files {
		files[i].name = "package/" + files[i].name
	}
	return r.writeArchive(name+"-"+r.version+".tgz", files)
}
