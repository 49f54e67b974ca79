package lockstep_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// unwanted are words and phrases that documents and messages do not have, what to write in their place, and why. A reader whose
// language is another one understands each sentence once.
var unwanted = []struct {
	pattern    *regexp.Regexp
	write, why string
}{
	{phrase(`at most`), `"a maximum of N", or "the maximum is N"`, "one word for one thing: a limit is a maximum"},
	{regexp.MustCompile(`(?m)(^|\| ?)([Mm]ost|[Ll]east|[Ll]ongest) (open|wait|bytes|requests|transactions|calls|connections|level|that)\b`), `"maximum ...", "minimum ..." or "lowest ..."`, "one word for one thing: a limit is a maximum or a minimum"},
	{phrase(`established relays?`), `"hiero-json-rpc-relay", or "the TypeScript relay"`, "it does not say which relay"},
	{phrase(`hiccups?|blips?`), `"short failure"`, "an idiom"},
	{phrase(`mourn\w*|tides?|ebb\w*|sank|walks? away|stepback`), "what happens: a turn is lost, a queue grows", "a private word"},
	{phrase(`lets? (it |them )?go of|lets go|kicks?|kicked`), `"releases", "wakes"`, "a private word"},
	{phrase(`seldom|oftentimes`), `"rarely", or "less often"`, "a rare word"},
	{phrase(`lest|anew|afresh|hence|thereof|whilst|amid`), `"again", "so", "of it", "while"`, "an old word"},
	{phrase(`for good|in vain|once and for all|sooner or later|by and by`), `"for ever", "without success", "at some time"`, "an idiom"},
	{phrase(`as ever`), "what happens", "an idiom"},
	{phrase(`astray|haywire|falls? over|blows? up|breaks? off|broke off`), "what happens: it ends with an error, it fails", "an idiom"},
	{phrase(`signs? of life`), `"heartbeat"`, "an idiom"},
	{phrase(`its likes|and the like`), "the names, or \"the other ...\"", "it does not say which"},
	{phrase(`free pass|no cure|rule of thumb|under the hood|out of the box|on the fly|at a glance|bells and whistles|silver bullet`), "what is meant", "an idiom"},
	{phrase(`the price:|its price is|dear ones?`), `"the disadvantage", "costs", "expensive"`, "a figure of speech"},
	{phrase(`look(s)? whether|see whether`), `"check whether"`, "the usual word"},
	{phrase(`gotcha|caveats?|sane|sanity|footgun|yak`), "what the reader has to know", "jargon"},
	{phrase(`utilize[sd]?|leverage[sd]?|in order to`), `"use", "to"`, "the short word says the same"},
	{phrase(`seed after seed|step by little step`), `"one seed after the other"`, "an idiom"},
}

func phrase(words string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(` + words + `)(\W|$)`) }

// spoken are texts of others that clients of Ethereum's nodes expect.
var spoken = map[string]bool{
	"too many arguments, want at most %d": true, "exceed max topics: at most %d": true, "exceed max addresses: %d of at most %d": true,
}

// Documents, comments, messages, help texts and the page have no word of the list above.
func TestWords(t *testing.T) {
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*.yml", "console/page/files/*", "examples/*/*.md", "packaging/helm/lockstep/values.yaml", "packaging/helm/lockstep/templates/NOTES.txt", "packaging/lockstep.env"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			checkWords(t, file, 1, string(text))
		}
	}
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			if !strings.HasSuffix(name, ".pb.go") {
				checkMessages(t, p.name()+"/"+name, filepath.Join(p.Dir, name))
			}
			if !strings.HasSuffix(name, ".pb.go") {
				checkComments(t, p.name()+"/"+name, filepath.Join(p.Dir, name))
			}
		}
	}
}

// checkMessages looks at the texts of a Go file: those of at least three words are for people.
func checkMessages(t *testing.T, name, path string) {
	t.Helper()
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(literal.Value)
		if err == nil && strings.Count(text, " ") >= 2 && !spoken[text] {
			checkWords(t, name, files.Position(literal.Pos()).Line, text)
		}
		return true
	})
}

// checkComments looks at the comments of a Go file, the package's manual included.
func checkComments(t *testing.T, name, path string) {
	t.Helper()
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range parsed.Comments {
		checkWords(t, name, files.Position(group.Pos()).Line, group.Text())
	}
}

func checkWords(t *testing.T, file string, line int, text string) {
	t.Helper()
	for _, u := range unwanted {
		for _, at := range u.pattern.FindAllStringIndex(text, -1) {
			t.Errorf("%s:%d: %q: write %s (%s)", file, line+strings.Count(text[:at[0]], "\n"), strings.TrimSpace(text[at[0]:at[1]]), u.write, u.why)
		}
	}
}

// The list finds what it is for.
func TestWordsAreFound(t *testing.T) {
	for text, found := range map[string]bool{
		"It takes at most 5.": true, "| a | most requests per second |": true, "As established relays do": true, "the maximum is 5": false, "almost at mostly": false,
		"a hiccup.": true, "most of them": false, "| Most of them |": false, "for goods": false, "lost for good": true,
	} {
		got := false
		for _, u := range unwanted {
			got = got || u.pattern.MatchString(text)
		}
		if got != found {
			t.Errorf("%q: %v", text, got)
		}
	}
}
