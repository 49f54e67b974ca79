package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"sigs.k8s.io/yaml"
)

// compose reads the compose file with the loader that docker compose has. COMPOSE_PROFILES in the environment names profiles.
func compose(t *testing.T, environment ...string) (*types.Project, error) {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(root, "packaging/compose/compose.yml")},
		cli.WithEnv(environment), cli.WithDefaultProfiles(), cli.WithoutEnvironmentResolution)
	if err != nil {
		t.Fatal(err)
	}
	return options.LoadProject(t.Context())
}

// The compose file is one that docker compose takes, and it says what is missing when no version is named.
func TestComposeFileLoads(t *testing.T) {
	project := get(compose(t, "LOCKSTEP_VERSION=1.2.3"))(t)
	for _, name := range []string{"relay-1", "relay-2"} {
		relay, ok := project.Services[name]
		if !ok {
			t.Fatalf("no service %s in %v", name, project.ServiceNames())
		}
		if relay.Image != "lockstep:1.2.3" || !relay.ReadOnly || len(relay.CapDrop) != 1 {
			t.Errorf("%s: image %q, read only %v, capabilities dropped %v", name, relay.Image, relay.ReadOnly, relay.CapDrop)
		}
		if url := relay.Environment["REDIS_URL"]; url == nil || *url != "redis://redis:6379" {
			t.Errorf("%s: REDIS_URL is %v", name, url)
		}
	}
	if _, there := project.Services["txm"]; there {
		t.Error("the manager runs though nobody asked for it")
	}
	// The relays leave the last quarter of maxmemory to the locks: without a maximum they cannot know it.
	for _, flags := range []string{"--maxmemory 512mb", "--maxmemory-policy noeviction", "--appendonly yes"} {
		if command := strings.Join(project.Services["redis"].Command, " "); !strings.Contains(command, flags) {
			t.Errorf("redis is started without %s: %s", flags, command)
		}
	}
	if _, err := compose(t); err == nil || !strings.Contains(err.Error(), "say which version") {
		t.Errorf("without a version: %v", err)
	}
}

// With the profile txm there are a manager and its database too, and Prometheus has the manager's password.
func TestComposeHasAManager(t *testing.T) {
	project := get(compose(t, "LOCKSTEP_VERSION=1.2.3", "COMPOSE_PROFILES=txm", "TXM_BASIC_PASSWORD=chosen"))(t)
	manager, ok := project.Services["txm"]
	if !ok || !slices.Equal(manager.Command, []string{"txm"}) || manager.Image != "lockstep:1.2.3" || !manager.ReadOnly {
		t.Fatalf("services %v, the manager %+v", project.ServiceNames(), manager)
	}
	if _, ok := project.Services["postgres"]; !ok {
		t.Errorf("no database in %v", project.ServiceNames())
	}
	if password := manager.Environment["TXM_BASIC_PASSWORD"]; password == nil || *password != "chosen" || project.Configs["txm-password"].Content != "chosen" {
		t.Errorf("the manager's password is %v, that of Prometheus %q", password, project.Configs["txm-password"].Content)
	}
}

// What the compose file mounts is there, its programs get settings that exist, and Prometheus asks the relays and the manager
// where they listen, and reads the rules that it is given.
func TestComposeFitsTogether(t *testing.T) {
	project := get(compose(t, "LOCKSTEP_VERSION=1.2.3", "COMPOSE_PROFILES=txm", "TXM_BASIC_PASSWORD=chosen"))(t)
	settings := get(os.ReadFile(filepath.Join(root, "docs/CONFIG.md")))(t)
	mounted := map[string]bool{}
	for _, service := range project.Services {
		for name := range service.Environment {
			if strings.HasPrefix(service.Image, "lockstep:") && !strings.Contains(string(settings), "| `"+name+"` |") {
				t.Errorf("%s: there is no setting %s", service.Name, name)
			}
		}
		for _, volume := range service.Volumes {
			mounted[service.Name+" "+volume.Target] = true
			if info, err := os.Stat(volume.Source); volume.Type == types.VolumeTypeBind && (err != nil || info.IsDir()) {
				t.Errorf("%s mounts %s: %v", service.Name, volume.Source, err)
			}
		}
	}
	var prometheus struct {
		Rules  []string `json:"rule_files"`
		Scrape []struct {
			Static []struct{ Targets []string } `json:"static_configs"`
			Names  []struct {
				Names []string
				Port  int
			} `json:"dns_sd_configs"`
			Password struct {
				User string `json:"username"`
				File string `json:"password_file"`
			} `json:"basic_auth"`
		} `json:"scrape_configs"`
	}
	text := get(os.ReadFile(filepath.Join(root, "packaging/compose/prometheus.yml")))(t)
	do(t, yaml.Unmarshal(text, &prometheus))
	for _, rules := range prometheus.Rules {
		if !mounted["prometheus "+rules] {
			t.Errorf("Prometheus reads %s, which is not mounted", rules)
		}
	}
	targets := prometheus.Scrape[0].Static[0].Targets
	for _, target := range targets {
		host, port, _ := strings.Cut(target, ":")
		if listens := project.Services[host].Environment["SERVER_PORT"]; listens == nil || *listens != port {
			t.Errorf("Prometheus asks %s, which does not listen there", target)
		}
	}
	manager, asked := project.Services["txm"].Environment, prometheus.Scrape[1]
	if len(targets) != 2 || len(prometheus.Rules) != 2 || !slices.Equal(asked.Names[0].Names, []string{"txm"}) ||
		*manager["TXM_ADDRESS"] != fmt.Sprint("0.0.0.0:", asked.Names[0].Port) || *manager["TXM_BASIC_USER"] != asked.Password.User ||
		project.Services["prometheus"].Configs[0].Target != asked.Password.File {
		t.Errorf("Prometheus asks %+v, and the manager is %+v", prometheus, manager)
	}
}
