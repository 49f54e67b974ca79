package submit_test

import (
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockstep/internal/must"
)

// comparers are the files that may compare nonces, and why.
var comparers = map[string]string{
	"allowance.go": "what a refusal may cost the operator, and which transactions the balance that the mirror node shows has not paid yet",
	"gate.go":      "which transaction's file is paid for first, since that costs the operator before the turn",
	"verdict.go":   "what the network's refusal means",
	"result.go":    "whether the nonce of a transaction that was refused is spent",
}

// Package lock has the nonce policy: which nonce is next, and what the holder of a turn is to do.
func TestLockHasTheNoncePolicy(t *testing.T) {
	files := must.Get(os.ReadDir("."))(t)
	nonce := regexp.MustCompile(`(?i)nonce|\bmine\b|\bexpected\b|\bproven\b`)
	compares := []token.Token{token.LSS, token.GTR, token.LEQ, token.GEQ, token.EQL, token.NEQ}
	seen := map[string]int{}
	for _, f := range files {
		name := f.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file := must.Get(parser.ParseFile(set, name, nil, 0))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			b, ok := n.(*ast.BinaryExpr)
			if !ok || !slices.Contains(compares, b.Op) {
				return true
			}
			var text strings.Builder
			must.Do(t, printer.Fprint(&text, set, b))
			if nonce.MatchString(text.String()) {
				seen[name]++
				if comparers[name] == "" {
					t.Errorf("%s compares nonces: %s", set.Position(b.Pos()), text.String())
				}
			}
			return true
		})
	}
	for name := range comparers {
		if seen[name] == 0 {
			t.Errorf("%s compares none, so it needs no place in the list", name)
		}
	}
}
