// Package packaging checks what is published: the packages, the image, the unit and the compose file.
package packaging

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const version = "1.2.3"

// release runs the release program for this machine's platform, and returns its folder.
func release(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the program")
	}
	out := filepath.Join(t.TempDir(), "dist")
	command := exec.CommandContext(t.Context(), "go", "run", "./release", "-root", "..", "-out", out, "-version", "v"+version, "-platforms", "linux/"+runtime.GOARCH)
	command.Dir = "../../tools"
	command.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000")
	if text, err := command.CombinedOutput(); err != nil {
		t.Fatalf("release: %v\n%s", err, text)
	}
	return out
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
	content, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// The program in the image, the package and the archive runs; the package has the unit, which systemd
// takes; the checksums are right; the list of what is built in is there.
func TestRelease(t *testing.T) {
	out := release(t)
	base := "lockstep_" + version + "_linux_" + runtime.GOARCH
	image, deb := "lockstep_"+version+"_image.tar", "lockstep_"+version+"_"+runtime.GOARCH+".deb"

	var listed []string
	for line := range strings.Lines(string(read(t, out, "SHA256SUMS"))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		listed = append(listed, name)
		if got := fmt.Sprintf("%x", sha256.Sum256(read(t, out, name))); got != sum {
			t.Errorf("%s has the checksum %s, and the list says %s", name, got, sum)
		}
	}
	if want := []string{deb, image, base + ".cdx.json", base + ".tar.gz"}; !slices.Equal(listed, slices.Sorted(slices.Values(want))) {
		t.Errorf("the list has %q", listed)
	}
	var materials struct {
		Components []struct{ Name string }
	}
	if err := json.Unmarshal(read(t, out, base+".cdx.json"), &materials); err != nil || len(materials.Components) < 50 {
		t.Errorf("%d components (%v)", len(materials.Components), err)
	}

	t.Run("image", func(t *testing.T) { checkImage(t, filepath.Join(out, image)) })
	t.Run("archive", func(t *testing.T) {
		dir := t.TempDir()
		output(t, "tar", "-xzf", filepath.Join(out, base+".tar.gz"), "-C", dir)
		wantVersion(t, output(t, filepath.Join(dir, base, "lockstep"), "version"))
		read(t, dir, base, "LICENSE")
	})
	t.Run("package", func(t *testing.T) { checkPackage(t, filepath.Join(out, deb)) })
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
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
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

// checkImage follows an image from its index to its files, checks each digest on the way, and runs its
// program in its root file system as its user, if this process may.
func checkImage(t *testing.T, path string) {
	blobs := unpack(t, read(t, path))
	get := func(d descriptor) []byte {
		name := "blobs/" + strings.Replace(d.Digest, ":", "/", 1)
		blob := blobs[name]
		if blob == nil || len(blob.content) != d.Size || fmt.Sprintf("sha256:%x", sha256.Sum256(blob.content)) != d.Digest {
			t.Fatalf("the blob %s is not what its digest says", name)
		}
		return blob.content
	}
	decode := func(text []byte, into any) {
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	var index, platforms struct{ Manifests []descriptor }
	decode(blobs["index.json"].content, &index)
	decode(get(index.Manifests[0]), &platforms)
	if len(platforms.Manifests) != 1 || platforms.Manifests[0].Platform.Architecture != runtime.GOARCH || platforms.Manifests[0].Platform.OS != "linux" {
		t.Fatalf("platforms %+v", platforms.Manifests)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	decode(get(platforms.Manifests[0]), &manifest)
	var config struct {
		Config struct {
			User, WorkingDir string
			Entrypoint, Cmd  []string
		}
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	decode(get(manifest.Config), &config)
	if config.Config.User != "65532:65532" || !slices.Equal(config.Config.Cmd, []string{"serve"}) {
		t.Errorf("the image runs %q as %q", config.Config.Cmd, config.Config.User)
	}
	unzip, err := gzip.NewReader(bytes.NewReader(get(manifest.Layers[0])))
	if err != nil {
		t.Fatal(err)
	}
	layer, err := io.ReadAll(unzip)
	if err != nil {
		t.Fatal(err)
	}
	if id := fmt.Sprintf("sha256:%x", sha256.Sum256(layer)); len(manifest.Layers) != 1 || !slices.Equal(config.RootFS.DiffIDs, []string{id}) {
		t.Errorf("%d layers; the first is %s, and the image says %q", len(manifest.Layers), id, config.RootFS.DiffIDs)
	}
	files := unpack(t, layer)
	if files["tmp/"].Mode != 0o1777 || files[strings.TrimPrefix(config.Config.WorkingDir, "/")+"/"].Uid != 65532 || len(files["etc/ssl/certs/ca-certificates.crt"].content) == 0 {
		t.Error("the image lacks a folder for temporary files, its working directory or certificates")
	}
	root := t.TempDir()
	for name, f := range files {
		path := filepath.Join(root, name)
		if f.Typeflag == tar.TypeDir {
			continue
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, f.content, f.FileInfo().Mode())); err != nil {
			t.Fatal(err)
		}
	}
	wantVersion(t, runIn(t, root, config.Config.Entrypoint[0], "version"))
}

func checkPackage(t *testing.T, deb string) {
	for field, want := range map[string]string{"Package": "lockstep", "Version": version, "Architecture": runtime.GOARCH} {
		if got := strings.TrimSpace(output(t, "dpkg-deb", "--field", deb, field)); got != want {
			t.Errorf("%s is %q", field, got)
		}
	}
	for line := range strings.Lines(output(t, "dpkg-deb", "--contents", deb)) {
		if !strings.Contains(line, " root/root ") || strings.HasSuffix(line, "lockstep.env\n") != strings.HasPrefix(line, "-rw------- ") {
			t.Errorf("owner or mode: %s", line)
		}
	}
	dir := t.TempDir()
	output(t, "dpkg-deb", "--extract", deb, dir)
	binary := filepath.Join(dir, "usr/bin/lockstep")
	wantVersion(t, output(t, binary, "version"))
	// systemd-analyze looks whether the program is there.
	unit := filepath.Join(dir, "lib/systemd/system/lockstep.service")
	text := strings.ReplaceAll(string(read(t, unit)), "/usr/bin/lockstep", binary)
	if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Log("systemd-analyze is not here: the unit is not checked")
		return
	}
	if said := output(t, "systemd-analyze", "verify", "--man=no", "--recursive-errors=no", unit); strings.Contains(said, "lockstep.service") {
		t.Errorf("systemd says: %s", said)
	}
}

// runIn runs a program of a root file system, inside it and as nobody if this process may do that.
func runIn(t *testing.T, root, program string, args ...string) string {
	t.Helper()
	if os.Getuid() != 0 {
		return output(t, filepath.Join(root, program), args...)
	}
	for dir := root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), program, args...)
	command.Dir = "/"
	command.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	text, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s in the image: %v\n%s", program, err, text)
	}
	return string(text)
}
