package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// nobody is the user that the image runs as.
const nobody = 65532

const passwd = "root:x:0:0:root:/root:/sbin/nologin\nlockstep:x:65532:65532:lockstep:/data:/sbin/nologin\n"

// Media types of the OCI image specification.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// descriptor points to a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// layout is an OCI image layout in the making.
type layout struct{ files []file }

// blob adds a blob and returns what points to it.
func (l *layout) blob(mediaType string, content []byte) descriptor {
	digest := fmt.Sprintf("%x", sha256.Sum256(content))
	l.files = append(l.files, file{name: "blobs/sha256/" + digest, mode: 0o644, content: content})
	return descriptor{MediaType: mediaType, Digest: "sha256:" + digest, Size: len(content)}
}

func (l *layout) document(mediaType string, content any) (descriptor, error) {
	text, err := json.Marshal(content)
	return l.blob(mediaType, text), err
}

// image makes one image for all platforms, as an archive of an OCI layout: podman load, skopeo copy
// oci-archive:FILE and docker load (from 25 on) read it. It has the program, certificates and nothing else.
func (r *release) image(certificates string) error {
	trusted, err := os.ReadFile(certificates)
	if err != nil {
		return fmt.Errorf("the image needs certificates: %w", err)
	}
	var l layout
	var manifests []descriptor
	for _, p := range r.programs {
		m, err := r.platformImage(&l, p, trusted)
		if err != nil {
			return err
		}
		manifests = append(manifests, m)
	}
	inner, err := l.document(typeIndex, map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": manifests})
	if err != nil {
		return err
	}
	inner.Annotations = map[string]string{"org.opencontainers.image.ref.name": r.version, "io.containerd.image.name": "docker.io/library/lockstep:" + r.version}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": []descriptor{inner}})
	if err != nil {
		return err
	}
	l.files = append(l.files,
		file{name: "oci-layout", mode: 0o644, content: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		file{name: "index.json", mode: 0o644, content: index})
	packed, err := r.pack(l.files)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "lockstep_"+r.version+"_image.tar"), packed, 0o644)
}

// platformImage adds the image of one platform.
func (r *release) platformImage(l *layout, p program, trusted []byte) (descriptor, error) {
	notice, err := os.ReadFile(filepath.Join(r.root, "NOTICE"))
	if err != nil {
		return descriptor{}, err
	}
	packed, err := r.pack([]file{
		{name: "usr/bin/lockstep", mode: 0o755, content: p.binary},
		{name: "usr/share/doc/lockstep/NOTICE", mode: 0o644, content: notice},
		{name: "usr/share/doc/lockstep/THIRD-PARTY-LICENSES", mode: 0o644, content: p.licences},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: trusted},
		{name: "etc/passwd", mode: 0o644, content: []byte(passwd)},
		{name: "etc/group", mode: 0o644, content: []byte("root:x:0:\nlockstep:x:65532:\n")},
		{name: "data/", mode: 0o755, owner: nobody}, // the working directory
		{name: "tmp/", mode: 0o1777},
	})
	if err != nil {
		return descriptor{}, err
	}
	squeezed, err := compress(packed)
	if err != nil {
		return descriptor{}, err
	}
	layer := l.blob(typeLayer, squeezed)
	config, err := l.document(typeConfig, map[string]any{
		"created": r.made, "architecture": p.machine, "os": p.system,
		"config": map[string]any{
			"User": fmt.Sprintf("%d:%[1]d", nobody), "WorkingDir": "/data", "Entrypoint": []string{"/usr/bin/lockstep"}, "Cmd": []string{"serve"}, "StopSignal": "SIGTERM",
			"Env":          []string{"PATH=/usr/bin", "PRETTY_LOGS_ENABLED=false"},
			"ExposedPorts": map[string]any{"7546/tcp": struct{}{}, "8546/tcp": struct{}{}, "8547/tcp": struct{}{}},
			"Labels":       map[string]string{"org.opencontainers.image.title": "lockstep", "org.opencontainers.image.version": r.version, "org.opencontainers.image.licenses": "Apache-2.0"},
		},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(packed))}},
		"history": []map[string]any{{"created": r.made, "created_by": "tools/release"}},
	})
	if err != nil {
		return descriptor{}, err
	}
	manifest, err := l.document(typeManifest, map[string]any{"schemaVersion": 2, "mediaType": typeManifest, "config": config, "layers": []descriptor{layer}})
	manifest.Platform = &platform{p.machine, p.system}
	return manifest, err
}
