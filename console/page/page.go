package page

import (
	"embed"
	"io/fs"
	"net/http"
	"strings"
)

//go:embed files
var embedded embed.FS

// Prefix is the path under which the page lies.
const Prefix = "/ui/"

// policy lets the page load nothing but its own files, and lets no other page frame it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func name(path string) string {
	if path == Prefix || path == strings.TrimSuffix(Prefix, "/") {
		return "index.html"
	}
	return strings.TrimPrefix(path, Prefix)
}

// Has says whether the path is that of a file of the page.
func Has(path string) bool {
	if path+"/" != Prefix && !strings.HasPrefix(path, Prefix) {
		return false
	}
	info, err := fs.Stat(embedded, "files/"+name(path))
	return err == nil && !info.IsDir()
}

// Serve answers a GET for one of the files, and says whether it did.
func Serve(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || !Has(r.URL.Path) {
		return false
	}
	if r.URL.Path+"/" == Prefix {
		http.Redirect(w, r, Prefix, http.StatusMovedPermanently)
		return true
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache")
	http.ServeFileFS(w, r, embedded, "files/"+name(r.URL.Path))
	return true
}
