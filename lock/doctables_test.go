package lock

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/internal/must"
)

// table returns the lines of a table in a file's comments, from the line that begins with first, without comment signs.
func table(t *testing.T, file, first string) []string {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	_, rest, found := strings.Cut(string(text), "//\t"+first)
	if !found {
		t.Fatalf("%s has no table that begins with %q", file, first)
	}
	rows, _, _ := strings.Cut(first+rest, "\n//\n")
	return strings.Split(strings.ReplaceAll(rows, "\n//\t", "\n"), "\n")
}

// Nothing but what doc.go lists locks lane.mu.
func TestWhoLocksALaneIsDocumented(t *testing.T) {
	t.Parallel()
	got := map[string][]string{} // functions by the type that they are methods of
	files := must.Get(filepath.Glob("*.go"))(t)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file := must.Get(parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution))(t)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !locksLane(f) {
				continue
			}
			_, of := receiver(f)
			got[of] = append(got[of], f.Name.Name)
		}
	}
	want := table(t, "doc.go", "lane Ticket Lease Submitted  their methods")
	for _, whole := range strings.Fields(strings.TrimSuffix(want[0], "their methods")) {
		if len(got[whole]) == 0 {
			t.Errorf("doc.go says that methods of %s lock lane.mu, and none does", whole)
		}
		delete(got, whole)
	}
	for _, row := range want[1:] {
		row, _, _ = strings.Cut(row, ", ") // what follows explains
		words := strings.Fields(strings.ReplaceAll(row, ";", ""))
		listed := words[1:]
		slices.Sort(listed)
		slices.Sort(got[words[0]])
		if !slices.Equal(listed, got[words[0]]) {
			t.Errorf("methods of %s that lock lane.mu: %v; doc.go lists %v", words[0], got[words[0]], listed)
		}
		delete(got, words[0])
	}
	for of, functions := range got {
		t.Errorf("doc.go does not say that %v of %q lock lane.mu", functions, of)
	}
}

// receiver returns the name of a method's receiver and of its type.
func receiver(f *ast.FuncDecl) (name, of string) {
	if f.Recv == nil {
		return "", ""
	}
	field := f.Recv.List[0]
	if len(field.Names) > 0 {
		name = field.Names[0].Name
	}
	typ := field.Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if id, ok := typ.(*ast.Ident); ok {
		of = id.Name
	}
	return name, of
}

// locksLane tells whether a function locks the mu of a lane: any mu that is not that of its own receiver, since
// nobody but its owner locks another mutex of this package.
func locksLane(f *ast.FuncDecl) (locks bool) {
	self, of := receiver(f)
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.SelectorExpr)
		if !ok || call.Sel.Name != "Lock" {
			return true
		}
		mu, ok := call.X.(*ast.SelectorExpr)
		if !ok || mu.Sel.Name != "mu" {
			return true
		}
		owner, ok := mu.X.(*ast.Ident)
		locks = locks || of == "lane" || !ok || owner.Name != self
		return true
	})
	return locks
}
