package lockstep_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// README installs the cast that the tests have.
func TestReadmeNamesTheCastOfTheTests(t *testing.T) {
	pinned := regexp.MustCompile(`"(@foundry-rs/cast-linux-amd64)": "([^"]+)"`).FindStringSubmatch(read(t, "e2e/package.json"))
	if pinned == nil || !strings.Contains(read(t, "README.md"), " "+pinned[1]+"@"+pinned[2]+" ") {
		t.Errorf("README does not install %q", pinned)
	}
}

// The examples of README can be run one after the other: what one uses was installed before, and
// what one exports does not change the next.
func TestReadmeExamplesFollowEachOther(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	installed := map[string]bool{}
	needs := map[string]string{"cast": "make setup", "lockstep": "make install"}
	exported := regexp.MustCompile(`^export (\w+)=`)
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			for _, how := range needs {
				installed[how] = installed[how] || strings.HasPrefix(line, how)
			}
			words := strings.Fields(strings.SplitN(line, "#", 2)[0])
			for name, how := range needs {
				for _, word := range words {
					if strings.TrimLeft(word, "$(") == name && !installed[how] {
						t.Errorf("%s is used before %q: %s", name, how, line)
					}
				}
			}
			if m := exported.FindStringSubmatch(line); m != nil && m[1] != "PATH" && m[1] != "ETH_RPC_URL" {
				t.Errorf("an example exports a setting, which the next one gets as well: %s", line)
			}
		}
	}
	if !installed["make install"] || !installed["make setup"] {
		t.Errorf("installed by README: %v", installed)
	}
}
