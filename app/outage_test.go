package app_test

import (
	"bytes"
	"net/http"
	"strings"
)

// metric returns the rest of the line of a metric that has one series.
func (r *relay) metric(name string) string {
	r.Helper()
	response, err := http.Get(r.url + "/metrics")
	if err != nil {
		r.Fatal(err)
	}
	defer response.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(response.Body); err != nil {
		r.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(rest)
		}
	}
	r.Fatalf("no metric %s", name)
	return ""
}
