package packaging

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/internal/must"
)

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
