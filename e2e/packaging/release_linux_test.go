// Package packaging checks what is published: the packages, the image, the unit and the compose file.
package packaging

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"lockstep/e2e/harness"
	"lockstep/internal/must"
	"lockstep/internal/proctest"
)

const version = "1.2.3"

// headers is what the header of a program says, by the name that Go has for the machine.
var headers = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// release runs the release program as make release does, and returns its folder and the machines that it is for. To compile
// for another machine takes minutes, so the test does that only where LOCKSTEP_RELEASE_PLATFORMS asks for it, as make release does.
func release(t *testing.T) (out string, machines []string) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the program")
	}
	platforms := os.Getenv("LOCKSTEP_RELEASE_PLATFORMS")
	platforms = cmp.Or(platforms, "linux/"+runtime.GOARCH)
	for platform := range strings.SplitSeq(platforms, ",") {
		machines = append(machines, strings.TrimPrefix(platform, "linux/"))
	}
	slices.Sort(machines)
	out = filepath.Join(t.TempDir(), "dist")
	command := exec.CommandContext(t.Context(), "go", "run", "./release", "-root", "..", "-out", out, "-version", "v"+version, "-platforms", platforms)
	command.Dir = "../../tools"
	command.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000")
	if text, err := command.CombinedOutput(); err != nil {
		t.Fatalf("release: %v\n%s", err, text)
	}
	return out, machines
}

// output runs a program and returns what it prints.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	text, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, text)
	}
	return string(text)
}

// read returns a file's content.
func read(t *testing.T, parts ...string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(filepath.Join(parts...)))(t)
}

// For each platform the program in the image, the package and the archive is one and the same, it needs no library of the
// system, and it runs where this machine can run it; systemd takes the unit; the checksums are right; the list of what is
// built in has what the program says of itself.
func TestRelease(t *testing.T) {
	out, machines := release(t)
	image := "lockstep_" + version + "_image.tar"
	want := []string{image, "lockstep-dev-" + version + ".tgz"}
	for _, machine := range machines {
		base := "lockstep_" + version + "_linux_" + machine
		want = append(want, base+".cdx.json", base+".tar.gz", "lockstep_"+version+"_"+machine+".deb", "lockstep-dev-linux-"+machine+"-"+version+".tgz")
	}
	slices.Sort(want)
	var listed []string
	for line := range strings.Lines(string(read(t, out, "SHA256SUMS"))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		listed = append(listed, name)
		if got := fmt.Sprintf("%x", sha256.Sum256(read(t, out, name))); got != sum {
			t.Errorf("%s has the checksum %s, and the list says %s", name, got, sum)
		}
	}
	if !slices.Equal(listed, want) {
		t.Errorf("the list has %q, want %q", listed, want)
	}

	programs, unpacked := map[string]string{}, t.TempDir()
	for _, machine := range machines {
		t.Run("archive for "+machine, func(t *testing.T) {
			programs[machine] = checkArchive(t, out, machine, unpacked)
			checkMaterials(t, filepath.Join(out, "lockstep_"+version+"_linux_"+machine+".cdx.json"), programs[machine])
		})
	}
	if t.Failed() {
		return
	}
	t.Run("image", func(t *testing.T) { checkImage(t, filepath.Join(out, image), programs) })
	t.Run("npm", func(t *testing.T) { checkNPM(t, out, programs) })
	t.Run("README", func(t *testing.T) {
		img := checkImage(t, filepath.Join(out, image), programs)[runtime.GOARCH]
		passReadme(t, img.unpack(t), img)
	})
	for _, machine := range machines {
		deb := filepath.Join(out, "lockstep_"+version+"_"+machine+".deb")
		t.Run("package for "+machine, func(t *testing.T) { checkPackage(t, deb, machine, programs[machine]) })
		if machine == runtime.GOARCH {
			t.Run("installed package", func(t *testing.T) { checkInstalled(t, deb) })
		}
	}
}

// checkArchive unpacks an archive into a folder, looks at its program, and returns that program's path.
func checkArchive(t *testing.T, out, machine, dir string) string {
	t.Helper()
	base := "lockstep_" + version + "_linux_" + machine
	output(t, "tar", "-xzf", filepath.Join(out, base+".tar.gz"), "-C", dir)
	path := filepath.Join(dir, base, "lockstep")
	read(t, dir, base, "LICENSE")
	licences := string(read(t, dir, base, "THIRD-PARTY-LICENSES"))
	if info, err := buildinfo.ReadFile(path); err != nil {
		t.Error(err)
	} else {
		for _, m := range info.Deps {
			if !strings.Contains(licences, "\n"+m.Path+" "+m.Version+"\n    ") {
				t.Errorf("THIRD-PARTY-LICENSES does not tell the licence of %s %s", m.Path, m.Version)
			}
		}
	}
	checkLinks(t, filepath.Join(dir, base))
	program := must.Get(elf.Open(path))(t)
	defer func() { _ = program.Close() }()
	if program.Machine != headers[machine] {
		t.Errorf("the program is for %v", program.Machine)
	}
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP || part.Type == elf.PT_DYNAMIC {
			t.Errorf("the program is not static: it has a part of the type %v", part.Type)
		}
	}
	if machine == runtime.GOARCH {
		wantVersion(t, output(t, path, "version"))
	}
	return path
}

// checkLinks looks for what the documents of a folder lead to.
func checkLinks(t *testing.T, dir string) {
	t.Helper()
	links, documents := 0, 0
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".md") {
			return err
		}
		documents++
		for _, link := range relativeLink.FindAllSubmatch(read(t, path), -1) {
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), string(link[1]))); err != nil {
				t.Errorf("%s leads to what is not in the package: %v", path, err)
			}
		}
		return nil
	})
	if err != nil || documents < 10 || links < 50 {
		t.Errorf("%d documents with %d links: %v", documents, links, err)
	}
}

var relativeLink = regexp.MustCompile(`\]\(([\w./-]+)(?:#[^)]*)?\)`)

// checkMaterials holds the list of what is built in against what a program says of itself.
func checkMaterials(t *testing.T, list, program string) {
	t.Helper()
	var materials struct {
		BOMFormat, SpecVersion string
		Metadata               struct {
			Component struct {
				Name, Version string
				Hashes        []struct{ Alg, Content string }
			}
		}
		Components []struct{ Type, Name, Version, PURL string }
	}
	must.Do(t, json.Unmarshal(read(t, list), &materials))
	if self := materials.Metadata.Component; self.Name != "lockstep" || self.Version != version || materials.BOMFormat != "CycloneDX" || materials.SpecVersion == "" {
		t.Errorf("the list is one of %+v, in the form %s %s", self, materials.BOMFormat, materials.SpecVersion)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(read(t, program)))
	if hashes := materials.Metadata.Component.Hashes; len(hashes) != 1 || hashes[0].Alg != "SHA-256" || hashes[0].Content != sum {
		t.Errorf("the list is of the program %+v, want %s", hashes, sum)
	}
	info := must.Get(buildinfo.ReadFile(program))(t)
	want := []string{"library stdlib " + info.GoVersion + " pkg:golang/stdlib@" + info.GoVersion}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		want = append(want, "library "+m.Path+" "+m.Version+" pkg:golang/"+m.Path+"@"+m.Version)
	}
	var got []string
	for _, c := range materials.Components {
		got = append(got, c.Type+" "+c.Name+" "+c.Version+" "+c.PURL)
	}
	slices.Sort(want)
	slices.Sort(got)
	if len(info.Deps) < 50 || !slices.Equal(got, want) {
		t.Errorf("the list has %q, and the program says %q", got, want)
	}
}

func wantVersion(t *testing.T, text string) {
	t.Helper()
	if strings.TrimSpace(text) != "lockstep "+version {
		t.Errorf("the program says %q", text)
	}
}

// unpack returns the files of a tar archive by name.
func unpack(t *testing.T, packed []byte) map[string]*entry {
	t.Helper()
	found := map[string]*entry{}
	for r := tar.NewReader(bytes.NewReader(packed)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		content := must.Get(io.ReadAll(r))(t)
		found[h.Name] = &entry{h, content}
	}
}

type entry struct {
	*tar.Header
	content []byte
}

type descriptor struct {
	Digest   string
	Size     int
	Platform struct{ Architecture, OS string }
}

// checkImage follows an image from its index to the files of each platform, and checks each digest on the way. The program of this
// machine's platform runs in its root file system, as its user. The images are returned by machine.
func checkImage(t *testing.T, path string, programs map[string]string) map[string]image {
	t.Helper()
	blobs := unpack(t, read(t, path))
	get := func(d descriptor) []byte {
		name := "blobs/" + strings.Replace(d.Digest, ":", "/", 1)
		blob := blobs[name]
		if blob == nil || len(blob.content) != d.Size || fmt.Sprintf("sha256:%x", sha256.Sum256(blob.content)) != d.Digest {
			t.Fatalf("the blob %s is not what its digest says", name)
		}
		return blob.content
	}
	var index, platforms struct{ Manifests []descriptor }
	decode(t, blobs["index.json"].content, &index)
	decode(t, get(index.Manifests[0]), &platforms)
	found := map[string]image{}
	for _, m := range platforms.Manifests {
		machine := m.Platform.Architecture
		if m.Platform.OS != "linux" || programs[machine] == "" {
			t.Errorf("the platform %+v", m.Platform)
			continue
		}
		img := checkPlatform(t, get, m)
		if !bytes.Equal(img.files["usr/bin/lockstep"].content, read(t, programs[machine])) {
			t.Errorf("%s: the image has another program than the archive", machine)
		}
		if machine == runtime.GOARCH {
			wantVersion(t, runIn(t, img.unpack(t), img.Config.Entrypoint[0], "version"))
		}
		found[machine] = img
	}
	if got, want := slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(programs)); !slices.Equal(got, want) || len(platforms.Manifests) != len(want) {
		t.Errorf("the image is for %q, want %q", got, want)
	}
	return found
}

// image is what the image of one platform says of itself, with its files.
type image struct {
	Architecture, OS string
	Config           struct {
		User, WorkingDir     string
		Entrypoint, Cmd, Env []string
	}
	RootFS struct {
		DiffIDs []string `json:"diff_ids"`
	}

	files map[string]*entry
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	must.Do(t, json.Unmarshal(text, into))
}

func checkPlatform(t *testing.T, get func(descriptor) []byte, d descriptor) (img image) {
	t.Helper()
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	decode(t, get(d), &manifest)
	decode(t, get(manifest.Config), &img)
	if img.Architecture != d.Platform.Architecture || img.OS != d.Platform.OS {
		t.Errorf("the image of %+v says that it is for %s on %s", d.Platform, img.OS, img.Architecture)
	}
	if img.Config.User != "65532:65532" || !slices.Equal(img.Config.Cmd, []string{"serve"}) {
		t.Errorf("the image runs %q as %q", img.Config.Cmd, img.Config.User)
	}
	unzip := must.Get(gzip.NewReader(bytes.NewReader(get(manifest.Layers[0]))))(t)
	layer := must.Get(io.ReadAll(unzip))(t)
	if id := fmt.Sprintf("sha256:%x", sha256.Sum256(layer)); len(manifest.Layers) != 1 || !slices.Equal(img.RootFS.DiffIDs, []string{id}) {
		t.Errorf("%d layers; the first is %s, and the image says %q", len(manifest.Layers), id, img.RootFS.DiffIDs)
	}
	img.files = unpack(t, layer)
	data := img.files[strings.TrimPrefix(img.Config.WorkingDir, "/")+"/"]
	if img.files["tmp/"].Mode != 0o1777 || data.Uid != 65532 || len(img.files["etc/ssl/certs/ca-certificates.crt"].content) == 0 {
		t.Error("the image lacks a folder for temporary files, its working directory or certificates")
	}
	return img
}

// unpack makes the image's root file system, with the modes and, if this process may, the owners that it says.
func (img image) unpack(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	for _, name := range slices.Sorted(maps.Keys(img.files)) {
		f, path := img.files[name], filepath.Join(root, name)
		if f.Typeflag == tar.TypeDir {
			must.Do(t, os.MkdirAll(path, 0o755))
		} else if err := os.WriteFile(path, f.content, 0o600); err != nil {
			t.Fatal(err)
		}
		must.Do(t, os.Chmod(path, f.FileInfo().Mode()))
		if os.Getuid() == 0 {
			must.Do(t, os.Chown(path, f.Uid, f.Gid))
		}
	}
	return root
}

func checkPackage(t *testing.T, deb, machine, program string) {
	for field, want := range map[string]string{"Package": "lockstep", "Version": version, "Architecture": machine} {
		if got := strings.TrimSpace(output(t, "dpkg-deb", "--field", deb, field)); got != want {
			t.Errorf("%s is %q", field, got)
		}
	}
	for line := range strings.Lines(output(t, "dpkg-deb", "--contents", deb)) {
		if !strings.Contains(line, " root/root ") || strings.HasSuffix(line, " ./etc/lockstep/lockstep.env\n") != strings.HasPrefix(line, "-rw------- ") {
			t.Errorf("owner or mode: %s", line)
		}
	}
	dir := t.TempDir()
	output(t, "dpkg-deb", "--extract", deb, dir)
	binary := filepath.Join(dir, "usr/bin/lockstep")
	if !bytes.Equal(read(t, binary), read(t, program)) {
		t.Error("the package has another program than the archive")
	}
	// systemd-analyze looks whether the program is there.
	unit := filepath.Join(dir, "lib/systemd/system/lockstep.service")
	text := strings.ReplaceAll(string(read(t, unit)), "/usr/bin/lockstep", binary)
	must.Do(t, os.WriteFile(unit, []byte(text), 0o600))
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Log("systemd-analyze is not here: the unit is not checked")
		return
	}
	if said := output(t, "systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit); strings.Contains(said, "lockstep.service") {
		t.Errorf("systemd says: %s", said)
	}
}

// checkInstalled installs a package into an empty root file system, over itself after its settings were changed, removes it and
// purges it.
func checkInstalled(t *testing.T, deb string) {
	if os.Getuid() != 0 {
		t.Log("only root can give files to root: the package is not installed")
		return
	}
	root := t.TempDir()
	must.Do(t, errors.Join(os.MkdirAll(filepath.Join(root, "var/lib/dpkg/updates"), 0o755), os.MkdirAll(filepath.Join(root, "var/lib/dpkg/info"), 0o755),
		os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o600)))
	dpkg := func(args ...string) string {
		t.Helper()
		// There is no shell in that file system for the scripts of the package.
		return output(t, "dpkg", append([]string{"--root=" + root, "--force-script-chrootless"}, args...)...)
	}
	mode := func(name string) string {
		t.Helper()
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil {
			return "absent"
		}
		owner := info.Sys().(*syscall.Stat_t)
		return fmt.Sprintf("%v %d:%d", info.Mode(), owner.Uid, owner.Gid)
	}
	const settings = "etc/lockstep/lockstep.env"
	dpkg("--install", deb)
	for name, want := range map[string]string{
		"usr/bin/lockstep": "-rwxr-xr-x 0:0", settings: "-rw------- 0:0", "lib/systemd/system/lockstep.service": "-rw-r--r-- 0:0",
		"usr/share/doc/lockstep/copyright": "-rw-r--r-- 0:0", "usr/share/doc/lockstep/docs/RUNBOOK.md": "-rw-r--r-- 0:0", "usr/share/doc/lockstep/docs/relay-alerts.yml": "-rw-r--r-- 0:0", "usr/share/doc/lockstep/docs/relay-dashboard.json": "-rw-r--r-- 0:0",
		"etc/lockstep": "drwxr-xr-x 0:0", "usr/bin": "drwxr-xr-x 0:0",
	} {
		if got := mode(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if status := dpkg("--status", "lockstep"); !strings.Contains(status, "Status: install ok installed\n") {
		t.Errorf("the package is not installed:\n%s", status)
	}
	wantVersion(t, output(t, filepath.Join(root, "usr/bin/lockstep"), "version"))

	own := []byte("CHAIN_ID=296\n")
	must.Do(t, os.WriteFile(filepath.Join(root, settings), own, 0o600))
	dpkg("--install", deb)
	if got := read(t, root, settings); !bytes.Equal(got, own) {
		t.Errorf("a new version of the package has put its own settings in the place of the operator's:\n%s", got)
	}
	dpkg("--remove", "lockstep")
	if mode("usr/bin/lockstep") != "absent" || mode("lib/systemd/system/lockstep.service") != "absent" || mode(settings) != "-rw------- 0:0" {
		t.Errorf("after it was removed: the program is %s, the settings are %s", mode("usr/bin/lockstep"), mode(settings))
	}
	dpkg("--purge", "lockstep")
	if mode(settings) != "absent" {
		t.Error("the settings are left when the package is purged")
	}
}

// runIn runs a program of a root file system, inside it and as nobody if this process may do that.
func runIn(t *testing.T, root, program string, args ...string) string {
	t.Helper()
	command := commandIn(t, root, program, args...)
	text, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s in the image: %v\n%s", program, err, text)
	}
	return string(text)
}

// commandIn is a program of a root file system, to be run inside it and as nobody if this process may do that. It ends
// with this process, even if that is killed.
func commandIn(t *testing.T, root, program string, args ...string) *exec.Cmd {
	t.Helper()
	if os.Getuid() != 0 {
		command := exec.CommandContext(t.Context(), filepath.Join(root, program), args...)
		command.Dir, command.SysProcAttr = root, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		return command
	}
	for dir := root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		must.Do(t, os.Chmod(dir, 0o755))
	}
	command := exec.CommandContext(t.Context(), program, args...)
	command.Dir = "/"
	command.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}, Pdeathsig: syscall.SIGKILL}
	return command
}

// There is no docker here to build the Dockerfile with. Its instructions are followed by hand: the compiler is the one that go.mod
// asks for, the command that it runs makes the program from what .dockerignore leaves, and its last stage is as the image of a release.
func TestDockerfile(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	root := filepath.Join("..", "..")
	file := strings.ReplaceAll(string(read(t, root, "Dockerfile")), "\\\n", " ")
	var stages [][]string
	for _, line := range regexp.MustCompile(`(?m)^[A-Z]+ .*$`).FindAllString(file, -1) {
		if strings.HasPrefix(line, "FROM ") {
			stages = append(stages, nil)
		}
		stages[len(stages)-1] = append(stages[len(stages)-1], line)
	}
	if len(stages) != 2 {
		t.Fatalf("%d stages: %q", len(stages), stages)
	}
	first, last := stages[0], stages[1]
	wanted := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(read(t, root, "go.mod"))[1]
	if !slices.Contains(first, "FROM golang:"+string(wanted)+" AS build") {
		t.Errorf("go.mod asks for Go %s: %q", wanted, first)
	}
	for _, want := range []string{"FROM scratch", "COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/", "COPY --from=build /lockstep /lockstep", "USER 65532:65532", `ENTRYPOINT ["/lockstep"]`, `CMD ["serve"]`} {
		if !slices.Contains(last, want) {
			t.Errorf("the image has no %s: %q", want, last)
		}
	}
	for dir := range strings.FieldsSeq(output(t, "go", "list", "-C", root, "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./cmd/lockstep")) {
		for ignored := range strings.FieldsSeq(string(read(t, root, ".dockerignore"))) {
			if strings.HasPrefix(dir, "lockstep/"+ignored+"/") {
				t.Errorf("the program needs %s, which .dockerignore leaves out", dir)
			}
		}
	}
	program := filepath.Join(t.TempDir(), "lockstep")
	command := regexp.MustCompile(`(?m)^RUN (CGO_ENABLED=0 go build .*)$`).FindStringSubmatch(file)
	if command == nil {
		t.Fatalf("no build: %q", first)
	}
	output(t, "env", "-C", root, "VERSION="+version, "sh", "-c", strings.Replace(command[1], "-o /lockstep", "-o "+program, 1))
	wantVersion(t, output(t, program, "version"))
}

// cpus are the names that npm has for machines.
var cpus = map[string]string{"amd64": "x64", "arm64": "arm64"}

// checkNPM looks into the package of each machine, installs that of this one in a fresh folder, without a network, and starts a
// chain by npx.
func checkNPM(t *testing.T, out string, programs map[string]string) {
	for machine, archived := range programs {
		dir := t.TempDir()
		output(t, "tar", "-xzf", filepath.Join(out, "lockstep-dev-linux-"+machine+"-"+version+".tgz"), "-C", dir)
		path := filepath.Join(dir, "package", "lockstep")
		program := must.Get(elf.Open(path))(t)
		_ = program.Close()
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm()&0o111 == 0 || program.Machine != headers[machine] || !bytes.Equal(read(t, path), read(t, archived)) {
			t.Errorf("the program in the package for %s is for %v, with the mode %v (%v); it has to be that of the archive", machine, program.Machine, info.Mode(), err)
		}
		var about struct {
			Name, Version string
			OS, CPU       []string
		}
		if err := json.Unmarshal(read(t, dir, "package", "package.json"), &about); err != nil ||
			about.Name != "lockstep-dev-linux-"+machine || about.Version != version || !slices.Equal(about.OS, []string{"linux"}) || !slices.Equal(about.CPU, []string{cpus[machine]}) {
			t.Errorf("the package for %s says %+v (%v)", machine, about, err)
		}
	}
	dir, home := t.TempDir(), t.TempDir()
	inFolder := func(name string, args ...string) *exec.Cmd {
		command := exec.CommandContext(t.Context(), name, args...)
		command.Dir = dir
		command.Env = append(os.Environ(), "HOME="+home, "npm_config_cache="+home, "npm_config_offline=true", "npm_config_audit=false", "npm_config_fund=false", "npm_config_update_notifier=false")
		return command
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private":true}`), 0o600))
	install := inFolder("npm", "install", filepath.Join(out, "lockstep-dev-linux-"+runtime.GOARCH+"-"+version+".tgz"), filepath.Join(out, "lockstep-dev-"+version+".tgz"))
	if text, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v\n%s", err, text)
	}
	var front struct{ OptionalDependencies map[string]string }
	if err := json.Unmarshal(read(t, dir, "node_modules", "lockstep-dev", "package.json"), &front); err != nil || len(front.OptionalDependencies) != len(programs) || front.OptionalDependencies["lockstep-dev-linux-"+runtime.GOARCH] != version {
		t.Errorf("lockstep-dev brings %q (%v)", front.OptionalDependencies, err)
	}
	text, err := inFolder("npx", "lockstep-dev", "--version").CombinedOutput()
	if err != nil {
		t.Fatalf("npx lockstep-dev --version: %v\n%s", err, text)
	}
	wantVersion(t, string(text))

	chain := inFolder("npx", "lockstep-dev", "--json", "--http", "127.0.0.1:0", "--ws", "127.0.0.1:0", "--mirror", "127.0.0.1:0", "--consensus", "127.0.0.1:0")
	chain.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // npx, node and the program
	lines := must.Get(chain.StdoutPipe())(t)
	must.Do(t, chain.Start())
	t.Cleanup(func() { _ = syscall.Kill(-chain.Process.Pid, syscall.SIGKILL) })
	printed := bufio.NewReader(lines)
	line, err := printed.ReadBytes('\n')
	var ready struct{ RPC string }
	if err != nil || json.Unmarshal(line, &ready) != nil || ready.RPC == "" {
		t.Fatalf("npx lockstep-dev --json: %v\n%s", err, line)
	}
	answer := must.Get(http.Post(ready.RPC, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}`)))(t)
	defer answer.Body.Close()
	var block struct{ Result string }
	if err := json.NewDecoder(answer.Body).Decode(&block); err != nil || !strings.HasPrefix(block.Result, "0x") {
		t.Errorf("eth_blockNumber: %v %+v", err, block)
	}
	// npm passes the signal to its shell and no further. The chain ends all the same: it closes what it prints to.
	must.Do(t, chain.Process.Signal(syscall.SIGTERM))
	must.Get(io.Copy(io.Discard, printed))(t)
}

// Prometheus takes the settings of the compose file, and all files of rules.
func TestPrometheusTakesItsFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("needs promtool")
	}
	docs := must.Get(filepath.Abs("../../docs"))(t)
	rules, err := filepath.Glob(filepath.Join(docs, "*-alerts.yml"))
	if err != nil || len(rules) < 3 {
		t.Fatalf("files of rules: %q, %v", rules, err)
	}
	output(t, "promtool", append([]string{"check", "rules"}, rules...)...)

	// The container has the rules elsewhere; compose.yml says where.
	outside := string(read(t, "../../packaging/compose/prometheus.yml"))
	for _, name := range []string{"relay-alerts.yml", "txm-alerts.yml"} {
		inside := "/etc/prometheus/" + name
		if !strings.Contains(string(read(t, "../../packaging/compose/compose.yml")), "../../docs/"+name+":"+inside+":ro") {
			t.Errorf("the compose file does not put the rules at %s", inside)
		}
		outside = strings.ReplaceAll(outside, inside, filepath.Join(docs, name))
	}
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	must.Do(t, os.WriteFile(file, []byte(outside), 0o600))
	if said := output(t, "promtool", "check", "config", file); !strings.Contains(said, "2 rule files found") {
		t.Errorf("promtool says %s", said)
	}
}

// examples are the blocks of README that a shell can run, by the first words of a line in each.
func examples(t *testing.T, has ...string) []string {
	t.Helper()
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(read(t, "../../README.md")), -1)
	var found []string
	for _, words := range has {
		for _, block := range blocks {
			if strings.Contains("\n"+block[1], "\n"+words) {
				found = append(found, block[1])
				break
			}
		}
	}
	if len(found) != len(has) {
		t.Fatalf("README has %d of the examples %q", len(found), has)
	}
	return found
}

// passReadme starts the development network of an image, in its root file system, as its user, in its working directory and with its
// environment, and asks it what README asks. Only the ports are others. (What else README says is run with the program itself.)
func passReadme(t *testing.T, root string, img image) {
	t.Helper()
	parts := examples(t, "curl -s http://127.0.0.1:7546", "lockstep dev --tx")
	args := []string{"dev", "--json", "--tx"}
	for _, listener := range []string{"tx-address", "http", "ws", "mirror", "mirror-grpc", "consensus", "ui"} {
		args = append(args, "--"+listener, "127.0.0.1:0")
	}
	command := commandIn(t, root, img.Config.Entrypoint[0], args...)
	if command.SysProcAttr.Chroot != "" {
		command.Dir = img.Config.WorkingDir
	}
	command.Env = append(append(img.Config.Env, harness.Patient()...), "SHUTDOWN_DRAIN_DELAY_MS=0")
	out := new(proctest.Tail)
	command.Stdout = out
	process, err := proctest.Start(command)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		if <-process.Ended; !command.ProcessState.Success() {
			t.Errorf("the image's program ended with %v", command.ProcessState)
		}
		if t.Failed() {
			t.Logf("the image's program said:\n%s", process.Log.Last(20_000))
		}
	}()
	var ready struct{ RPC, TX string }
	err = process.Until(t.Context(), harness.StartLimit, func() error { return json.NewDecoder(strings.NewReader(out.String())).Decode(&ready) })
	if err != nil || ready.RPC == "" || ready.TX == "" {
		t.Fatalf("the image's program is not ready: %v %s", err, out)
	}

	here := func(text, written, now string) string {
		t.Helper()
		if !strings.Contains(text, written) {
			t.Fatalf("no %s in\n%s", written, text)
		}
		return strings.ReplaceAll(text, written, now)
	}
	_, manager, _ := strings.Cut(parts[1], "\n") // the network runs already
	said := shell(t, "set -eu\n"+here(parts[0], "http://127.0.0.1:7546", ready.RPC)+here(manager, "127.0.0.1:7550", strings.TrimPrefix(ready.TX, "http://")))
	for _, want := range []string{`"result":"0x`, `"success":true`, `"idempotencyKey":"order-1"`} {
		if !strings.Contains(strings.ReplaceAll(said, `": "`, `":"`), want) {
			t.Errorf("the examples of README do not print %q:\n%s", want, said)
		}
	}
}

// shell runs a script where README is, as its reader does.
func shell(t *testing.T, script string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sh", "-c", script)
	command.Dir = "../.."
	command.Env = harness.Environment()
	text, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%v\n%s", script, err, text)
	}
	return string(text)
}

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

// The unit's reload gives the service what /etc/lockstep/lockstep.env holds then: the service reads a copy, which the
// start and each reload make, and not the environment, which would be that of the start for ever.
func TestTheUnitReloadsItsSettings(t *testing.T) {
	unit := string(read(t, "../../packaging/lockstep.service"))
	setting := func(name string) (values []string) {
		for _, m := range regexp.MustCompile("(?m)^"+name+"=(.*)$").FindAllStringSubmatch(unit, -1) {
			values = append(values, m[1])
		}
		return values
	}
	if slices.ContainsFunc(setting("EnvironmentFile"), func(file string) bool { return strings.Contains(file, "lockstep.env") }) {
		t.Error("the settings are in the environment, which no reload changes")
	}
	if !slices.Contains(setting("Environment"), "LOCKSTEP_ENV_FILE=/run/lockstep/lockstep.env") || !slices.Contains(setting("RuntimeDirectory"), "lockstep") {
		t.Error("the service does not read the copy")
	}
	copies, reloads := setting("ExecStartPre"), setting("ExecReload")
	if len(copies) != 1 || len(reloads) != 2 || reloads[0] != copies[0] || !strings.Contains(reloads[1], "-HUP") {
		t.Fatalf("before the start %q, at a reload %q", copies, reloads)
	}
	command, begins := strings.CutPrefix(copies[0], "+/bin/sh -c '") // as root, who alone reads the file
	command, ends := strings.CutSuffix(command, "'")
	if !begins || !ends {
		t.Fatalf("not a command of a shell: %s", copies[0])
	}
	dir := t.TempDir()
	etc, run := filepath.Join(dir, "etc"), filepath.Join(dir, "run")
	for _, d := range []string{etc, run} {
		must.Do(t, os.Mkdir(d, 0o700))
	}
	command = strings.NewReplacer("/etc/lockstep", etc, "/run/lockstep", run).Replace(command)
	for _, settings := range []string{"TIER_1_RATE_LIMIT=1\n", "TIER_1_RATE_LIMIT=2\n"} {
		must.Do(t, os.WriteFile(filepath.Join(etc, "lockstep.env"), []byte(settings), 0o600))
		if said, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", command).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, said)
		}
		copied := filepath.Join(run, "lockstep.env")
		info, err := os.Stat(copied)
		if err != nil || info.Mode().Perm() != 0o600 || string(read(t, copied)) != settings {
			t.Errorf("the copy: %v, %v, %q", info, err, read(t, copied))
		}
	}
}
