package alerts

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// metrics are those of docs/METRICS.md with their labels; a histogram has three names more.
func metrics(t *testing.T) map[string][]string {
	t.Helper()
	known := map[string][]string{"up": nil}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([^|]*) \\|").FindAllStringSubmatch(read(t, "docs/METRICS.md"), -1) {
		of := regexp.MustCompile(`\w+`).FindAllString(row[2], -1)
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			known[row[1]+suffix] = append(known[row[1]+suffix], append(of, "le")...)
		}
	}
	if len(known) < 400 {
		t.Fatalf("docs/METRICS.md has %d names", len(known))
	}
	return known
}

// unknown says which metrics and labels of a query do not exist, and which of the labels that a legend shows it does not leave.
func unknown(known map[string][]string, query, legend string) (wrong []string) {
	// Grafana's variables stand for a duration or a value.
	query = regexp.MustCompile(`\[\$\w+\]`).ReplaceAllString(query, "[5m]")
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		return []string{err.Error()}
	}
	all, named := []string{"instance", "job"}, 0 // of every target
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if v, ok := node.(*parser.VectorSelector); ok {
			of, exists := known[v.Name]
			if !exists {
				wrong = append(wrong, "there is no metric "+v.Name)
			}
			for _, m := range v.LabelMatchers {
				if m.Name != labels.MetricName && m.Name != "instance" && m.Name != "job" && !slices.Contains(of, m.Name) {
					wrong = append(wrong, v.Name+" has no label "+m.Name)
				}
			}
			all, named = append(all, of...), named+1
		}
		return nil
	})
	if named == 0 {
		wrong = append(wrong, "it names no metric")
	}
	shown := regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(legend, -1)
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		var names []string
		switch n := node.(type) {
		case *parser.AggregateExpr:
			names = n.Grouping
			for _, label := range shown {
				if len(path) == 0 && !n.Without && !slices.Contains(n.Grouping, label[1]) {
					wrong = append(wrong, "the query leaves no label "+label[1])
				}
			}
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				names = append(slices.Clone(n.VectorMatching.MatchingLabels), n.VectorMatching.Include...)
			}
		}
		for _, name := range names {
			if !slices.Contains(all, name) {
				wrong = append(wrong, "no metric of it has a label "+name)
			}
		}
		return nil
	})
	for _, label := range shown {
		if !slices.Contains(all, label[1]) {
			wrong = append(wrong, "no metric of it has a label "+label[1])
		}
	}
	return wrong
}

func TestUnknownNamesAreFound(t *testing.T) {
	known := map[string][]string{"up": nil, "seconds_bucket": {"stage", "le"}}
	for query, right := range map[string]bool{
		`up{job=~"$job"} == 0`: true,
		`histogram_quantile(0.9, sum by (stage, le) (rate(seconds_bucket{stage="sent"}[$__rate_interval]))) > 1e10`: true,
		`up == 0 and on (instance) max_over_time(up[1d]) == 1`:                                                      true,
		`down == 0`: false, `up{stage="sent"}`: false, `sum by (phase) (seconds_bucket)`: false, `rate(seconds_total[5m])`: false, `sum(up`: false, `1`: false,
	} {
		if wrong := unknown(known, query, "{{job}}"); (len(wrong) == 0) != right {
			t.Errorf("%s: %q", query, wrong)
		}
	}
	if wrong := unknown(known, "sum by (stage) (seconds_bucket)", "{{le}}"); len(wrong) == 0 {
		t.Error("a legend shows a label that the query does not leave")
	}
}

// Every alert asks for metrics and labels that exist, says how bad it is, and has a section of the runbook that says what
// it means and what to do; the runbook has no other sections.
func TestAlertsAreTold(t *testing.T) {
	known, all, text := metrics(t), rules(t), read(t, "docs/RUNBOOK.md")
	for name, rule := range all {
		for _, wrong := range unknown(known, rule.Expr, "") {
			t.Errorf("%s: %s: %s", name, wrong, rule.Expr)
		}
		if !slices.Contains([]string{"warning", "critical"}, rule.Labels["severity"]) || rule.Annotations["summary"] == "" {
			t.Errorf("%s: severity %q, summary %q", name, rule.Labels["severity"], rule.Annotations["summary"])
		}
	}
	var told []string
	for _, section := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(text, -1) {
		told = append(told, section[1])
		_, body, _ := strings.Cut(text, section[0]+"\n")
		body, _, _ = strings.Cut(body, "\n#")
		if !strings.Contains(body, "**Means:** ") || !strings.Contains(body, "**Do:** ") {
			t.Errorf("%s does not say what it means and what to do", section[1])
		}
	}
	slices.Sort(told)
	if want := slices.Sorted(maps.Keys(all)); !slices.Equal(told, want) {
		t.Errorf("the runbook has %q, the files of alerts %q", told, want)
	}
}

// Every query of a dashboard asks for metrics and labels that exist, and every legend for labels that its query leaves.
func TestDashboardsKnowTheMetrics(t *testing.T) {
	files, err := filepath.Glob("../../docs/*-dashboard.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("dashboards: %q (%v)", files, err)
	}
	known := metrics(t)
	for _, name := range files {
		var board struct {
			Panels []struct {
				Type, Title string
				Targets     []struct{ Expr, LegendFormat string }
			}
		}
		if err := json.Unmarshal([]byte(read(t, "docs/"+filepath.Base(name))), &board); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, p := range board.Panels {
			if p.Type != "row" && len(p.Targets) == 0 {
				t.Errorf("%s: the panel %q is empty", name, p.Title)
			}
			for _, target := range p.Targets {
				for _, wrong := range unknown(known, target.Expr, target.LegendFormat) {
					t.Errorf("%s: %q: %s: %s", name, p.Title, wrong, target.Expr)
				}
			}
		}
	}
}
