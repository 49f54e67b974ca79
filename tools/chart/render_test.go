package chart

import (
	"context"
	"fmt"
	"path"
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
