package packaging

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// There is no docker here to build the Dockerfile with. Its instructions are followed by hand: the compiler is the one that go.mod
// asks for, the command that it runs makes the program from what .dockerignore leaves, and its last stage is as the image of a release.
func TestDockerfile(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	root := filepath.Join("..", "..")
	file := strings.ReplaceAll(string(read(t, root, "Dockerfile")), "\\\n", " ")
	var stages [][]string
	for _, line := range regexp.MustCompile(`(?m)^[A-Z]+ .*$`).FindAllString(file, -1) {
		if strings.HasPrefix(line, "FROM ") {
			stages = append(stages, nil)
		}
		stages[len(stages)-1] = append(stages[len(stages)-1], line)
	}
	if len(stages) != 2 {
		t.Fatalf("%d stages: %q", len(stages), stages)
	}
	first, last := stages[0], stages[1]
	wanted := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(read(t, root, "go.mod"))[1]
	if !slices.Contains(first, "FROM golang:"+string(wanted)+" AS build") {
		t.Errorf("go.mod asks for Go %s: %q", wanted, first)
	}
	for _, want := range []string{"FROM scratch", "COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/", "COPY --from=build /lockstep /lockstep", "USER 65532:65532", `ENTRYPOINT ["/lockstep"]`, `CMD ["serve"]`} {
		if !slices.Contains(last, want) {
			t.Errorf("the image has no %s: %q", want, last)
		}
	}
	for dir := range strings.FieldsSeq(output(t, "go", "list", "-C", root, "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./cmd/lockstep")) {
		for ignored := range strings.FieldsSeq(string(read(t, root, ".dockerignore"))) {
			if strings.HasPrefix(dir, "lockstep/"+ignored+"/") {
				t.Errorf("the program needs %s, which .dockerignore leaves out", dir)
			}
		}
	}
	program := filepath.Join(t.TempDir(), "lockstep")
	command := regexp.MustCompile(`(?m)^RUN (CGO_ENABLED=0 go build .*)$`).FindStringSubmatch(file)
	if command == nil {
		t.Fatalf("no build: %q", first)
	}
	output(t, "env", "-C", root, "VERSION="+version, "sh", "-c", strings.Replace(command[1], "-o /lockstep", "-o "+program, 1))
	wantVersion(t, output(t, program, "version"))
}
