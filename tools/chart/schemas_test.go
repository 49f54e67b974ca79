package chart

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// kubernetes is the module whose api/openapi-spec/swagger.json has the schemas, with the sum of the module.
const (
	kubernetes = "k8s.io/kubernetes@v1.34.2"
	sum        = "h1:WQdDvYJazkmkwSncgNwGvVtaCt4TYXIU3wSMRgvp3MI="
)

// schemas writes a JSON schema for each kind, where kubeconform looks for it, and returns the pattern of their names.
func schemas(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	download := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", kubernetes)
	download.Dir = dir
	out, err := download.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", kubernetes, err, out)
	}
	var module struct{ Dir, Sum string }
	do(t, json.Unmarshal(out, &module))
	if module.Sum != sum {
		t.Fatalf("%s has the sum %s", kubernetes, module.Sum)
	}
	text := get(os.ReadFile(filepath.Join(module.Dir, "api/openapi-spec/swagger.json")))(t)
	var api struct {
		Definitions map[string]map[string]any
	}
	do(t, json.Unmarshal(text, &api))
	for name, definition := range api.Definitions {
		strict(name, definition)
	}
	for _, definition := range api.Definitions {
		kinds, _ := definition["x-kubernetes-group-version-kind"].([]any)
		for _, one := range kinds {
			kind := one.(map[string]any)
			schema := map[string]any{"definitions": api.Definitions}
			maps.Copy(schema, definition)
			group, version := kind["group"].(string), kind["version"].(string)
			file := strings.ToLower(kind["kind"].(string)) + "-" + version + ".json"
			if group, _, _ = strings.Cut(group, "."); group != "" {
				file = strings.ToLower(kind["kind"].(string)) + "-" + group + "-" + version + ".json"
			}
			if !used[strings.ToLower(kind["kind"].(string))] {
				continue // each file has all definitions
			}
			content := get(json.Marshal(schema))(t)
			do(t, os.WriteFile(filepath.Join(dir, file), content, 0o600))
		}
	}
	return filepath.Join(dir, "{{ .ResourceKind }}{{ .KindSuffix }}.json")
}

// used are the kinds that the chart has.
var used = map[string]bool{
	"configmap": true, "deployment": true, "service": true, "serviceaccount": true, "poddisruptionbudget": true, "ingress": true, "horizontalpodautoscaler": true,
}

// strict makes a schema refuse what it does not name. Numbers with units may be text or numbers.
func strict(name string, definition map[string]any) {
	if _, ok := definition["properties"]; ok {
		definition["additionalProperties"] = false
	}
	if strings.HasSuffix(name, ".Quantity") || strings.HasSuffix(name, ".IntOrString") {
		delete(definition, "format")
		definition["type"] = []any{"string", "number"}
	}
}
