package page_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"testing"

	"lockstep/console/page"
	"lockstep/internal/must"
)

// The page is small, works offline, runs no script but its own, and says 1 entry and 2 entries.
func TestPage(t *testing.T) {
	elsewhere := regexp.MustCompile(`(?i)(src|href|url\(|import|fetch\()\s*[=(]?\s*["']?(https?:)?//`)
	counted := regexp.MustCompile(`\$\{[^}]*\} (entries|bytes|blocks|events|messages|contracts|shards|transactions|calls|failures|nonces|wait|are)\b`)
	inline := regexp.MustCompile(`(?i)\son[a-z]+\s*=\s*["']|<script>|<style|\sstyle=|innerHTML|\beval\(`)
	total := 0
	files := must.Get(os.ReadDir("files"))(t)
	for _, f := range files {
		r := httptest.NewRequest(http.MethodGet, page.Prefix+f.Name(), nil)
		if f.Name() == "index.html" {
			r = httptest.NewRequest(http.MethodGet, page.Prefix, nil)
		}
		w := httptest.NewRecorder()
		if !page.Serve(w, r) || w.Code != http.StatusOK {
			t.Errorf("%s: %d", f.Name(), w.Code)
			continue
		}
		text, _ := io.ReadAll(w.Body)
		total += len(text)
		if found := elsewhere.Find(text); found != nil {
			t.Errorf("%s asks elsewhere: %s", f.Name(), found)
		}
		if found := counted.Find(text); found != nil && !regexp.MustCompile(`\$\{shown\w+\}`).Match(found) {
			t.Errorf("%s: %s is wrong for 1: plural counts", f.Name(), found)
		}
		if found := inline.Find(text); found != nil {
			t.Errorf("%s: %s", f.Name(), found)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache"} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q", f.Name(), name, got)
			}
		}
		if policy := w.Header().Get("Content-Security-Policy"); !regexp.MustCompile(`default-src 'none'.*frame-ancestors 'none'`).MatchString(policy) || regexp.MustCompile(`unsafe|\*`).MatchString(policy) {
			t.Errorf("%s: policy %q", f.Name(), policy)
		}
	}
	if total > 200_000 {
		t.Errorf("the page has %d bytes, the maximum is 200,000", total)
	}
}
