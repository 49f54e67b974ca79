// Package packaging checks what is published: the packages, the image, the unit and the compose file.
package packaging

import (
	"archive/tar"
	"bytes"
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
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"lockstep/internal/must"
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
	if platforms == "" {
		platforms = "linux/" + runtime.GOARCH
	}
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
