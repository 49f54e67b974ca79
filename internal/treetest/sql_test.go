package treetest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"

	"lockstep/internal/must"
)

// TestQueriesAreConstant: no value gets into the text of a query. internal/ledger takes texts of its type SQL alone, which constants are by
// themselves; so the compiler finds a string that the program has made, unless somebody converts it. The placeholders, names and numbers that a
// text may need are converted in that package, and no other talks to a database.
func TestQueriesAreConstant(t *testing.T) {
	for _, p := range packages(t) {
		switch p.name() {
		case "internal/ledger", "internal/ledgertest", "internal/pgtest":
			continue
		}
		if slices.Contains(p.Imports, "database/sql") {
			t.Errorf("%s imports database/sql: internal/ledger talks to databases", p.name())
		}
		if !slices.Contains(p.Imports, "lockstep/internal/ledger") {
			continue
		}
		for _, name := range p.GoFiles {
			set := token.NewFileSet()
			file := must.Get(parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution))(t)
			ast.Inspect(file, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && converts(call) {
					t.Errorf("%s: a text that is not constant becomes a part of a query", set.Position(call.Pos()))
				}
				return true
			})
		}
	}
}

// converts tells whether something other than a literal is converted to a ledger.SQL.
func converts(call *ast.CallExpr) bool {
	to, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || to.Sel.Name != "SQL" || len(call.Args) != 1 {
		return false
	}
	_, literal := call.Args[0].(*ast.BasicLit)
	return !literal
}
