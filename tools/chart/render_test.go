package chart

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	helm "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// rendered is what the chart makes of values: objects by kind, all of it as text, and the notes.
type rendered struct {
	objects map[string]object
	text    string
	notes   string
}

// render renders the chart of this project, which has one object of each kind.
func render(t *testing.T, values string) rendered {
	t.Helper()
	text, notes, err := template(chartDir, values, nil)
	if err != nil {
		t.Fatal(err)
	}
	return rendered{objects: objects(t, text), text: text, notes: notes}
}

// objects reads rendered objects by their kinds.
func objects(t *testing.T, text string) map[string]object {
	t.Helper()
	out := map[string]object{}
	for text := range strings.SplitSeq(text, "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if o == nil {
			continue
		}
		kind := fmt.Sprint(o["kind"])
		if out[kind] != nil {
			t.Errorf("two objects of the kind %s", kind)
		}
		out[kind] = o
	}
	return out
}

// template does what helm template --include-crds does, with the parts that Helm's own action has. That action itself would
// bring what talks to a cluster, which is twice as much to compile. With Secrets it renders as an installation does that finds them.
func template(dir, values string, in secrets) (text, notes string, err error) {
	chart, err := loader.Load(dir)
	if err != nil {
		return "", "", err
	}
	given, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		return "", "", err
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = chartutil.KubeVersion{Version: "v1.34.2", Major: "1", Minor: "34"}
	if need := chart.Metadata.KubeVersion; need != "" && !chartutil.IsCompatibleRange(need, capabilities.KubeVersion.String()) {
		return "", "", fmt.Errorf("the chart needs Kubernetes %s", need)
	}
	if err := chartutil.ProcessDependenciesWithMerge(chart, given); err != nil {
		return "", "", err
	}
	release := chartutil.ReleaseOptions{Name: "mine", Namespace: "relays", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, given, release, capabilities) // and the schema of the values, if there is one
	if err != nil {
		return "", "", err
	}
	draw := engine.Render
	if in != nil {
		draw = func(chart *helm.Chart, all chartutil.Values) (map[string]string, error) {
			return engine.RenderWithClientProvider(chart, all, in)
		}
	}
	files, err := draw(chart, all)
	if err != nil {
		return "", "", err
	}
	notesFile := path.Join(chart.Name(), "templates", "NOTES.txt")
	notes = files[notesFile]
	delete(files, notesFile)
	hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return "", "", err
	}
	var out strings.Builder
	add := func(name, content string) { fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", name, content) }
	for _, crd := range chart.CRDObjects() {
		add(crd.Filename, string(crd.File.Data))
	}
	for _, m := range manifests {
		add(m.Name, m.Content)
	}
	for _, hook := range hooks {
		add(hook.Path, hook.Manifest)
	}
	return out.String(), notes, nil
}

// secrets is a cluster that has nothing but Secrets, each with one value.
type secrets map[string]string

func (s secrets) GetClientFor(string, string) (dynamic.NamespaceableResourceInterface, bool, error) {
	return secretClient{in: s}, true, nil
}

type secretClient struct {
	dynamic.NamespaceableResourceInterface
	in secrets
}

func (c secretClient) Namespace(string) dynamic.ResourceInterface { return c }

func (c secretClient) Get(_ context.Context, name string, _ meta.GetOptions, _ ...string) (*unstructured.Unstructured, error) {
	value, ok := c.in[name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	return &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"KEY": value}}}, nil
}

// What this chart does not have, another time: a schema of the values, a hook, a definition of a kind, a version of Kubernetes that is too new.
func TestTemplate(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"Chart.yaml":              "{apiVersion: v2, name: other, version: 1.0.0}",
		"values.schema.json":      `{"properties": {"replicas": {"type": "integer"}}}`,
		"crds/kind.yaml":          "kind: CustomResourceDefinition",
		"templates/_part.yaml":    "kind: Part",
		"templates/hook.yaml":     `{kind: Job, metadata: {annotations: {helm.sh/hook: pre-install}}}`,
		"templates/pod.yaml":      "{kind: Pod, replicas: {{ .Values.replicas }}}",
		"templates/NOTES.txt":     "{{ .Release.Name }} in {{ .Release.Namespace }}",
		"templates/nothing.yaml":  "{{ if false }}kind: Nothing{{ end }}",
		"templates/requires.yaml": `{{ required "say what" .Values.replicas | quote | printf "# %s" }}`,
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, notes, err := template(dir, "replicas: 2", nil)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for line := range strings.Lines(text) {
		if _, kind, ok := strings.Cut(line, "kind: "); ok {
			kinds = append(kinds, strings.TrimRight(kind, "\n"))
		}
	}
	want := []string{"CustomResourceDefinition", "Pod, replicas: 2}", "Job, metadata: {annotations: {helm.sh/hook: pre-install}}}"}
	if !slices.Equal(kinds, want) || notes != "mine in relays" {
		t.Errorf("notes %q, kinds %q of\n%s", notes, kinds, text)
	}
	for values, want := range map[string]string{"replicas: two": "values don't meet the specifications of the schema", "": "say what", "replicas: [": "error converting YAML"} {
		if _, _, err := template(dir, values, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("values %q: %v, want %q", values, err, want)
		}
	}
	chart := "{apiVersion: v2, name: other, version: 1.0.0, kubeVersion: '>=1.99.0'}"
	if err := os.WriteFile(filepath.Join(dir, "Chart.yaml"), []byte(chart), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := template(dir, "replicas: 2", nil); err == nil || !strings.Contains(err.Error(), "needs Kubernetes >=1.99.0") {
		t.Errorf("too old a Kubernetes: %v", err)
	}
}
