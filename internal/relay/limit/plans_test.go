package limit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/internal/must"
)

func TestPlansThatAreWrong(t *testing.T) {
	for name, text := range map[string]string{
		"not JSON":          `[{`,
		"no list":           `[1]`,
		"null":              `[null]`,
		"no id":             `[{"name":"n","subscriptionTier":"BASIC","ipAddresses":["192.0.2.1"]}]`,
		"id is a number":    `[{"id":1,"name":"n","subscriptionTier":"BASIC","ipAddresses":["192.0.2.1"]}]`,
		"id of two lines":   `[{"id":"a\nb","name":"n","subscriptionTier":"BASIC","ipAddresses":["192.0.2.1"]}]`,
		"no name":           `[{"id":"a","subscriptionTier":"BASIC","ipAddresses":["192.0.2.1"]}]`,
		"no tier":           `[{"id":"a","name":"n","ipAddresses":["192.0.2.1"]}]`,
		"unknown tier":      `[{"id":"a","name":"n","subscriptionTier":"GOLD","ipAddresses":["192.0.2.1"]}]`,
		"nobody":            `[{"id":"a","name":"n","subscriptionTier":"BASIC","evmAddresses":[],"ipAddresses":[]}]`,
		"not an address":    `[{"id":"a","name":"n","subscriptionTier":"BASIC","evmAddresses":["0x12"]}]`,
		"not an IP address": `[{"id":"a","name":"n","subscriptionTier":"BASIC","ipAddresses":["192.0.2.0/24"]}]`,
		"the same id twice": `[{"id":"a","name":"n","subscriptionTier":"BASIC","ipAddresses":["192.0.2.1"]},{"id":"a","name":"m","subscriptionTier":"BASIC","ipAddresses":["192.0.2.2"]}]`,
	} {
		_, err := loadPlans(text)
		if err == nil || !strings.Contains(err.Error(), "Failed to load pre-configured spending plans: ") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := New(Config{Total: 1, Plans: text}, Deps{}); err == nil {
			t.Errorf("%s: a budget was made of it", name)
		}
	}
}

// A file of plans is read from the working directory, and not from those above it.
func TestPlansFile(t *testing.T) {
	t.Chdir(t.TempDir())
	const name = "plans-of-a-test.json"
	if p, err := loadPlans(name); err != nil || len(p.tiers) != 0 {
		t.Errorf("no file: %v, %v", p, err)
	}
	path := filepath.Join(t.TempDir(), name)
	for _, path := range []string{path, name} {
		must.Do(t, os.WriteFile(path, []byte("\n "+testPlans), 0o600))
	}
	for _, setting := range []string{name, path, testPlans, " " + testPlans} {
		p, err := loadPlans(setting)
		if err != nil || len(p.tiers) != 3 || len(p.byAddress) != 2 || len(p.byIP) != 2 || p.byAddress[planned].ID != "p1" {
			t.Errorf("%.20q: %v, %v", setting, p, err)
		}
	}
	if p, err := loadPlans(""); err != nil || len(p.tiers) != 0 {
		t.Errorf("an empty setting: %v, %v", p, err)
	}
	must.Do(t, os.WriteFile(name, nil, 0o600))
	if _, err := loadPlans(name); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("an empty file: %v", err)
	}
	if _, err := loadPlans(filepath.Dir(path)); err == nil {
		t.Error("a directory was read")
	}
	must.Do(t, os.Mkdir("below", 0o700))
	t.Chdir("below")
	if p, err := loadPlans(name); err != nil || len(p.tiers) != 0 {
		t.Errorf("the file of the folder above: %v, %v", p, err)
	}
}

// Who is in two plans has the later one.
func TestLastPlanWins(t *testing.T) {
	p, err := loadPlans(`[
		{"id":"a","name":"n","subscriptionTier":"BASIC","evmAddresses":["0x00000000000000000000000000000000000000aa"]},
		{"id":"b","name":"n","subscriptionTier":"EXTENDED","evmAddresses":["0x00000000000000000000000000000000000000AA"]}
	]`)
	if err != nil || p.byAddress[planned].ID != "b" {
		t.Errorf("%v, %v", p, err)
	}
}
