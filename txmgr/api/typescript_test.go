package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"lockstep/internal/must"
	"lockstep/txmgr/api"
)

var update = flag.Bool("update", false, "rewrite the types of the TypeScript client")

const typesFile = "../../clients/typescript/src/openapi.ts"

// TestTypeScript makes the types of the TypeScript client from the OpenAPI document, and compares them with the file.
func TestTypeScript(t *testing.T) {
	source := append(must.Get(os.ReadFile("problem.go"))(t), must.Get(os.ReadFile("../../console/rest/problem.go"))(t)...)
	want := newForms(api.Document()).write(source)
	if *update {
		must.Do(t, os.WriteFile(typesFile, want, 0o644))
	}
	got := must.Get(os.ReadFile(typesFile))(t)
	if !bytes.Equal(got, want) {
		t.Errorf("%s is stale; run `go test ./txmgr/api -run TestTypeScript -update`", typesFile)
	}
}

// forms turns schemas into TypeScript. What callers send may have several forms: an amount is text, a number or a bigint. What the
// manager writes has one: text.
type forms struct {
	document *huma.OpenAPI
	schemas  map[string]*huma.Schema
	sent     map[string]bool // schemas that are part of what callers send
}

func newForms(document *huma.OpenAPI) *forms {
	y := &forms{document, document.Components.Schemas.Map(), map[string]bool{}}
	y.operations(func(_ string, op *huma.Operation) {
		if op.RequestBody != nil {
			y.mark(op.RequestBody.Content["application/json"].Schema)
		}
	})
	return y
}

func (y *forms) mark(s *huma.Schema) {
	if s == nil {
		return
	}
	if name := nameOf(s); name != "" {
		if y.sent[name] {
			return
		}
		y.sent[name] = true
		s = y.schemas[name]
	}
	y.mark(s.Items)
	for _, property := range s.Properties {
		y.mark(property)
	}
}

func nameOf(s *huma.Schema) string { return strings.TrimPrefix(s.Ref, "#/components/schemas/") }

// operations calls do for each operation, in order.
func (y *forms) operations(do func(name string, op *huma.Operation)) {
	for _, path := range slices.Sorted(maps.Keys(y.document.Paths)) {
		item := y.document.Paths[path]
		for _, m := range []struct {
			name string
			op   *huma.Operation
		}{{"GET", item.Get}, {"POST", item.Post}, {"PUT", item.Put}, {"PATCH", item.Patch}, {"DELETE", item.Delete}} {
			if m.op != nil {
				do(m.name+" "+path, m.op)
			}
		}
	}
}

func (y *forms) write(problems []byte) []byte {
	var b bytes.Buffer
	b.WriteString("// Made from the manager's OpenAPI document by `go test ./txmgr/api -run TestTypeScript -update`. Do not edit.\n\n")
	codes := map[string]bool{}
	for _, m := range regexp.MustCompile(`"([A-Z][A-Z_]+[A-Z])"`).FindAllSubmatch(problems, -1) {
		codes[string(m[1])] = true
	}
	b.WriteString("/** The `code` of an answer that is an error. */\nexport type Code =\n")
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		fmt.Fprintf(&b, "  | %q\n", code)
	}
	b.Truncate(b.Len() - 1)
	b.WriteString(";\n")
	for _, name := range slices.Sorted(maps.Keys(y.schemas)) {
		fmt.Fprintf(&b, "\nexport interface %s %s\n", name, y.object(y.schemas[name], y.sent[name], ""))
	}
	b.WriteString("\n/** What each call takes and answers. */\nexport interface Operations {\n")
	y.operations(func(name string, op *huma.Operation) {
		fmt.Fprintf(&b, "%s  %q: {\n", comment(op.Summary+". "+op.Description, "  "), name)
		for _, in := range []string{"path", "query", "header"} {
			y.parameters(&b, op, in)
		}
		if op.RequestBody != nil {
			optional := "?"
			if op.RequestBody.Required {
				optional = ""
			}
			fmt.Fprintf(&b, "    body%s: %s;\n", optional, y.of(op.RequestBody.Content["application/json"].Schema, true, "    "))
		}
		fmt.Fprintf(&b, "    answer: %s;\n  };\n", y.answer(op))
	})
	b.WriteString("}\n")
	return b.Bytes()
}

func (y *forms) parameters(b *bytes.Buffer, op *huma.Operation, in string) {
	var list []string
	needed := false
	for _, p := range op.Parameters {
		if p.In != in {
			continue
		}
		optional := "?"
		if p.Required {
			optional, needed = "", true
		}
		list = append(list, fmt.Sprintf("%q%s: %s", p.Name, optional, y.of(p.Schema, true, "")))
	}
	if len(list) > 0 {
		optional := "?"
		if needed {
			optional = ""
		}
		fmt.Fprintf(b, "    %s%s: { %s };\n", in, optional, strings.Join(list, "; "))
	}
}

func (y *forms) answer(op *huma.Operation) string {
	for _, status := range []int{http.StatusOK, http.StatusCreated, http.StatusAccepted} {
		if r := op.Responses[fmt.Sprint(status)]; r != nil {
			for _, media := range r.Content {
				return y.of(media.Schema, false, "    ")
			}
		}
	}
	return "undefined"
}

func (y *forms) object(s *huma.Schema, sent bool, indent string) string {
	var b strings.Builder
	b.WriteString("{\n")
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		optional := "?"
		if slices.Contains(s.Required, name) {
			optional = ""
		}
		fmt.Fprintf(&b, "%s%s  %s%s: %s;\n", comment(property.Description, indent+"  "), indent, name, optional, y.of(property, sent, indent+"  "))
	}
	if more, _ := s.AdditionalProperties.(bool); more {
		fmt.Fprintf(&b, "%s  [more: string]: unknown;\n", indent)
	}
	return b.String() + indent + "}"
}

// of is the type of a value that callers send, or that they are sent.
func (y *forms) of(s *huma.Schema, sent bool, indent string) string {
	if name := nameOf(s); name != "" {
		return name
	}
	text := "unknown"
	switch {
	case len(s.OneOf) > 0 && !sent:
		text = "string"
	case len(s.OneOf) > 0 && s.OneOf[0].Format == "date-time":
		text = "Date | number | string"
	case len(s.OneOf) > 0:
		text = "bigint | number | string"
	case len(s.Enum) > 0:
		var list []string
		for _, value := range s.Enum {
			list = append(list, fmt.Sprintf("%q", value))
		}
		text = strings.Join(list, " | ")
	case s.Type == huma.TypeArray:
		item := y.of(s.Items, sent, indent)
		if strings.Contains(item, "|") {
			item = "(" + item + ")"
		}
		text = item + "[]"
	case s.Type == huma.TypeObject && len(s.Properties) > 0:
		text = y.object(s, sent, indent)
	case s.Type == huma.TypeObject:
		value := "unknown"
		if of, ok := s.AdditionalProperties.(*huma.Schema); ok {
			value = y.of(of, sent, indent)
		}
		text = "{ [name: string]: " + value + " }"
	case s.Type == huma.TypeString:
		text = "string"
	case s.Type == huma.TypeBoolean:
		text = "boolean"
	case s.Type == huma.TypeInteger, s.Type == huma.TypeNumber:
		text = "number"
	}
	if s.Nullable {
		text += " | null"
	}
	return text
}

func comment(text, indent string) string {
	if text == "" {
		return ""
	}
	return indent + "/** " + strings.ReplaceAll(text, "*/", "*∕") + " */\n"
}

// TestBodiesOfTheDocument types the calls that docs/TXM.md shows, in its order.
func TestBodiesOfTheDocument(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/TXM.md"))(t)
	_, block, found := strings.Cut(string(text), "\n```http\n")
	if block, _, _ = strings.Cut(block, "\n```\n"); !found {
		t.Fatal("the document has no calls")
	}
	w := start(t, nil)
	w.chain.pooled.Store(true) // what is sent can be replaced
	w.until("its signer is known", func() bool { return w.get("/health/readiness").status == 200 })
	names := map[string]string{
		"31337": "1337", "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266": signerName, "0x70997970C51812dc3A010C7d01b50e0d17dc79C8": callerName, "0x02f8…": signed(0, 1),
	}
	calls := 0
	for call := range strings.SplitSeq(block, "\n\n") {
		for from, to := range names {
			call = strings.ReplaceAll(call, from, to)
		}
		line, body, _ := strings.Cut(call, "\n")
		method, path, _ := strings.Cut(line, " ")
		if path == "/v1/transactions/"+names["{id}"]+"/replace" {
			w.until("it is sent", func() bool {
				return strings.Contains(w.get("/v1/transactions/"+names["{id}"]).body, `"status":"broadcast"`)
			})
		}
		a := w.ask(method, path, body)
		if a.status/100 != 2 {
			t.Errorf("%s\n%s\nanswers %d %s", line, body, a.status, a.body)
		}
		var answer struct{ ID, LockID string }
		if json.Unmarshal([]byte(a.body), &answer) == nil {
			if answer.ID != "" {
				names["{id}"] = answer.ID
			}
			if answer.LockID != "" {
				names["{lockId}"] = answer.LockID
			}
		}
		calls++
	}
	if calls < 25 {
		t.Errorf("the document has %d calls", calls)
	}
}
