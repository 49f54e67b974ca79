package treetest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"lockstep/internal/must"
)

// TestQueriesAreConstant: no value gets into the text of a query. A text is made of constants, of placeholders and clauses
// that internal/ledger writes, and of numbers; where a function takes a part of it, its callers are held to the same.
func TestQueriesAreConstant(t *testing.T) {
	found := 0
	for _, p := range packages(t) {
		if p.name() == "internal/pgtest" || p.name() == "internal/ledgertest" || !slices.ContainsFunc(p.Imports, func(i string) bool { return i == "lockstep/internal/ledger" || i == "database/sql" }) {
			continue
		}
		var files []*ast.File
		set := token.NewFileSet()
		for _, name := range p.GoFiles {
			file := must.Get(parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution))(t)
			files = append(files, file)
		}
		q := newQueries(set, files)
		for _, problem := range q.check() {
			t.Errorf("%s: %s", p.name(), problem)
		}
		found += q.calls
	}
	if found < 100 {
		t.Errorf("%d queries were found: the test looks at the wrong calls", found)
	}
}

// The test finds values in queries, whichever way they take.
func TestVariableQueriesAreFound(t *testing.T) {
	for text, wrong := range map[string]bool{
		`func f(n int) { tx.Exec(ctx, "SELECT $1 LIMIT "+strconv.Itoa(n), name) }`:                                         false,
		`func f(n int) { tx.Exec(ctx, fmt.Sprintf("SELECT $1 LIMIT %d", n), name) }`:                                       false,
		`func f() { in := ledger.List(1, 2); for _, s := range []string{"DELETE " + in} { tx.Exec(ctx, s) } }`:             false,
		`func f() { g("a = $1") }; func g(where string) { tx.Query(ctx, "SELECT "+where, nil, nil) }`:                      false,
		`func f() { w := func(c string) { list = append(list, c) }; w("a"); tx.One(ctx, strings.Join(list, " AND ")) }`:    false,
		`func f(name string) { tx.Exec(ctx, "SELECT '"+name+"'") }; func g() { f(r.Name) }`:                                true,
		`func f() { tx.Exec(ctx, "SELECT "+ledger.Names[row]("")+" FROM rows") }`:                                          false,
		`func f() { tx.Exec(ctx, "SELECT "+other.Names[row]("")+" FROM rows") }`:                                           true,
		`func f() { tx.Exec(ctx, "SELECT "+r.Name) }`:                                                                      true,
		`func f() { ledger.Select[row](ctx, tx, "", "rows WHERE a = $1", r.Name) }`:                                        false,
		`func f() { ledger.Select[row](ctx, tx, "", "rows WHERE a = "+r.Name) }`:                                           true,
		`func f() { ledger.All(ctx, tx, "SELECT "+r.Name, nil, nil) }`:                                                     true,
		`func f() { tx.Exec(ctx, fmt.Sprintf("SELECT '%s'", r.Name)) }`:                                                    true,
		`func f() { tx.Exec(ctx, fmt.Sprint(r.Name)) }`:                                                                    true,
		`func f() { s := "SELECT "; s += r.Name; tx.Exec(ctx, s) }`:                                                        true,
		`func f() { g(r.Name) }; func g(where string) { h(where) }; func h(s string) { tx.Query(ctx, s, nil, nil) }`:       true,
		`func f() { w := func(c string) { list = append(list, c) }; w(r.Name); tx.One(ctx, strings.Join(list, " AND ")) }`: true,
		`func f() { for _, s := range []string{r.Name} { tx.Exec(ctx, s) } }`:                                              true,
		`func f() { tx.Exec(ctx, build()) }; func build() string { return "SELECT " + r.Name }`:                            true,
	} {
		set := token.NewFileSet()
		file := must.Get(parser.ParseFile(set, "x.go", "package x\n"+text, parser.SkipObjectResolution))(t)
		if got := newQueries(set, []*ast.File{file}).check(); (len(got) > 0) != wrong {
			t.Errorf("%s: %q, want wrong: %v", text, got, wrong)
		}
	}
}

// written are functions whose answers are a part of a query's text by design.
var written = map[string]string{
	"ledger.Rows": "placeholders", "ledger.List": "placeholders", "Rows": "placeholders", "List": "placeholders",
	"ForUpdate": "clauses of the ledger's own", "ForShare": "", "SkipLocked": "", "InsertInto": "",
	"strconv.Itoa": "numbers", "strconv.FormatInt": "numbers", "len": "a number",
	"statements": "the program's own files of migrations", "Sanitize": "a quoted name",
	"quoted": "a quoted name", "literal": "a quoted text",
	"ledger.Names": "columns, of a record's tags", "Names": "the same", "namesOf": "the same", "assigned": "the same",
}

// combined are functions whose answers are as constant as all they are given.
var combined = []string{"strings.Join", "strings.Replace", "strings.ReplaceAll", "strings.FieldsFunc", "strings.TrimSpace", "append", "t.text"}

// queries looks at the functions of one package.
type queries struct {
	set    *token.FileSet
	funcs  map[string][]*ast.FuncDecl // by name; methods too
	consts map[string]bool
	calls  int

	sinks    map[string]int // function, and the index of its parameter that becomes a part of a query → 1
	problems map[string]bool
	open     map[string]bool // names that are looked at, for those that are made of themselves
}

func newQueries(set *token.FileSet, files []*ast.File) *queries {
	q := &queries{set: set, funcs: map[string][]*ast.FuncDecl{}, consts: map[string]bool{}, sinks: map[string]int{}, problems: map[string]bool{}, open: map[string]bool{}}
	for _, file := range files {
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				q.funcs[d.Name.Name] = append(q.funcs[d.Name.Name], d)
			case *ast.GenDecl:
				q.declare(d)
			}
		}
	}
	return q
}

func (q *queries) declare(d *ast.GenDecl) {
	for _, s := range d.Specs {
		if v, ok := s.(*ast.ValueSpec); ok && d.Tok == token.CONST {
			for _, name := range v.Names {
				q.consts[name.Name] = true
			}
		}
	}
}

// texts are the functions of internal/ledger that take the text of a query, and which argument that is.
var texts = map[string]int{"ledger.All": 2, "ledger.Values": 2, "ledger.In": 2, "ledger.Select": 3}

var runs = regexp.MustCompile(`^(Exec|Query|One|ExecContext|QueryContext|QueryRowContext|PrepareContext)$`)

// check returns what is wrong. A function that hands a parameter on makes its callers to be looked at in the next round.
func (q *queries) check() []string {
	for known := -1; known != len(q.sinks); {
		known, q.calls = len(q.sinks), 0
		for _, list := range q.funcs {
			for _, f := range list {
				q.function(f)
			}
		}
	}
	var list []string
	for problem := range q.problems {
		list = append(list, problem)
	}
	slices.Sort(list)
	return list
}

func (q *queries) function(f *ast.FuncDecl) {
	if f.Body == nil {
		return
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		name := base(call.Fun)
		_, method := call.Fun.(*ast.SelectorExpr)
		spread := call.Ellipsis.IsValid() && len(call.Args) == 2 // of a statement that has its text already
		if method && runs.MatchString(name) && len(call.Args) > 1 && !spread {
			q.calls++
			q.want(f, call.Args[1])
		}
		if at := texts[full(call.Fun)]; at > 0 && len(call.Args) > at {
			q.calls++
			q.want(f, call.Args[at])
		}
		for n := range call.Args {
			if q.sinks[fmt.Sprint(name, " ", n)] != 0 {
				q.want(f, call.Args[n])
			}
		}
		return true
	})
}

func (q *queries) want(f *ast.FuncDecl, e ast.Expr) {
	if !q.constant(f, e) {
		q.problems[fmt.Sprintf("%s: the text of a query has a part that is not constant", q.set.Position(e.Pos()))] = true
	}
}

// base is the last name of a function that is called.
func base(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// full is the name with its package, or what is before it.
func full(e ast.Expr) string {
	if generic, ok := e.(*ast.IndexExpr); ok {
		e = generic.X
	}
	if s, ok := e.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok {
			return x.Name + "." + s.Sel.Name
		}
	}
	return base(e)
}

func (q *queries) constant(f *ast.FuncDecl, e ast.Expr) bool {
	all := func(list []ast.Expr) bool {
		return !slices.ContainsFunc(list, func(e ast.Expr) bool { return !q.constant(f, e) })
	}
	switch e := e.(type) {
	case *ast.BasicLit, *ast.FuncLit: // the functions are those of FieldsFunc
		return true
	case *ast.ParenExpr:
		return q.constant(f, e.X)
	case *ast.BinaryExpr:
		return q.constant(f, e.X) && q.constant(f, e.Y)
	case *ast.IndexExpr:
		return q.constant(f, e.X)
	case *ast.CompositeLit:
		return all(e.Elts)
	case *ast.KeyValueExpr:
		return q.constant(f, e.Value)
	case *ast.CallExpr:
		return q.called(f, e, all)
	case *ast.Ident:
		return q.consts[e.Name] || e.Name == "nil" || q.local(f, e.Name)
	}
	return false
}

var verbs = regexp.MustCompile(`%.`)

func (q *queries) called(f *ast.FuncDecl, call *ast.CallExpr, all func([]ast.Expr) bool) bool {
	name := full(call.Fun)
	if _, ok := written[name]; ok {
		return true
	}
	if _, method := call.Fun.(*ast.SelectorExpr); method {
		if _, ok := written[base(call.Fun)]; ok {
			return true
		}
	}
	switch {
	case slices.Contains(combined, name):
		return all(call.Args)
	case name == "fmt.Sprint":
		return all(call.Args)
	case name == "fmt.Sprintf":
		format, ok := call.Args[0].(*ast.BasicLit)
		if !ok {
			return false
		}
		text, err := strconv.Unquote(format.Value)
		for n, verb := range verbs.FindAllString(text, -1) {
			if err != nil || n+1 >= len(call.Args) || verb != "%d" && !q.constant(f, call.Args[n+1]) {
				return false
			}
		}
		return err == nil
	}
	return q.builds(base(call.Fun))
}

// builds reports whether a function of this package returns nothing but constant texts.
func (q *queries) builds(name string) bool {
	list := q.funcs[name]
	if len(list) != 1 || list[0].Type.Results == nil || list[0].Body == nil {
		return false
	}
	good := true
	ast.Inspect(list[0].Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			good = good && len(n.Results) > 0 && q.constant(list[0], n.Results[0])
		}
		return true
	})
	return good
}

// local reports whether all that a name in a function stands for is constant. A parameter is, if it is for all callers.
func (q *queries) local(f *ast.FuncDecl, name string) bool {
	key := f.Name.Name + " " + fmt.Sprint(f.Pos()) + " " + name
	if q.open[key] {
		return true // it is made of itself and of what is looked at anyway
	}
	q.open[key] = true
	defer delete(q.open, key)
	if at := position(f.Type, name); at >= 0 {
		q.sinks[fmt.Sprint(f.Name.Name, " ", at)] = 1
		return true
	}
	found, good := false, true
	is := func(e ast.Expr) { found, good = true, good && q.constant(f, e) }
	named := func(e ast.Expr) bool { id, ok := e.(*ast.Ident); return ok && id.Name == name }
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				switch {
				case named(left) && len(n.Lhs) == len(n.Rhs):
					is(n.Rhs[i])
				case named(left):
					is(n.Rhs[0])
				}
				if i < len(n.Rhs) {
					q.closure(f, left, n.Rhs[i], name, is)
				}
			}
		case *ast.ValueSpec:
			for i, left := range n.Names {
				if left.Name == name {
					found = true
					if i < len(n.Values) {
						is(n.Values[i])
					}
				}
			}
		case *ast.RangeStmt:
			if n.Value != nil && named(n.Value) {
				is(n.X)
			}
		}
		return true
	})
	return found && good
}

// closure looks at the calls of a function that a function has in a variable, if the name is a parameter of it.
func (q *queries) closure(f *ast.FuncDecl, variable, value ast.Expr, name string, is func(ast.Expr)) {
	literal, ok := value.(*ast.FuncLit)
	if !ok {
		return
	}
	at := position(literal.Type, name)
	if at < 0 {
		return
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && base(call.Fun) == base(variable) && at < len(call.Args) {
			is(call.Args[at])
		}
		return true
	})
}

// position is the index of a function's parameter, -1 for none.
func position(f *ast.FuncType, name string) int {
	at := 0
	for _, field := range f.Params.List {
		for _, id := range field.Names {
			if id.Name == name {
				return at
			}
			at++
		}
		at += max(0, 1-len(field.Names))
	}
	return -1
}
