package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/internal/must"
)

// What `lockstep serve` refuses for its settings alone, without a word to anybody, is a mistake for Load, too.
func TestLoadRefusesWhatServeRefuses(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "plans.json")
	must.Do(t, os.WriteFile(empty, nil, 0o600))
	for name, test := range map[string]struct {
		more []string
		want string // in the error; "" for none
	}{
		"redis":                    {[]string{"REDIS_ENABLED=true", "REDIS_URL=http://127.0.0.1:17379"}, "REDIS_URL: redis URL: scheme must be"},
		"redis that is not used":   {[]string{"REDIS_URL=http://127.0.0.1:17379"}, ""},
		"redis of the locks":       {[]string{"REDIS_ENABLED=true", "LOCK_REDIS_URL=http://127.0.0.1:17379"}, "LOCK_REDIS_URL: redis URL: scheme must be"},
		"console without a token":  {[]string{"ADMIN_ADDRESS=0.0.0.0:17561"}, "ADMIN_ADDRESS is not on loopback: that needs ADMIN_TOKEN"},
		"console on all addresses": {[]string{"ADMIN_ADDRESS=:17561"}, "ADMIN_ADDRESS is not on loopback: that needs ADMIN_TOKEN"},
		"console with a token":     {[]string{"ADMIN_ADDRESS=0.0.0.0:17561", "ADMIN_TOKEN=sesame"}, ""},
		"console on loopback":      {[]string{"ADMIN_ADDRESS=[::1]:17561"}, ""},
		"console by name":          {[]string{"ADMIN_ADDRESS=localhost:17561"}, ""},
		"console without a port":   {[]string{"ADMIN_ADDRESS=127.0.0.1"}, "ADMIN_ADDRESS: want host:port"},
		"console on no port":       {[]string{"ADMIN_ADDRESS=127.0.0.1:70000"}, "ADMIN_ADDRESS: want host:port"},
		"statuses":                 {[]string{"HEDERA_SPECIFIC_REVERT_STATUSES=NO_SUCH_STATUS"}, "HEDERA_SPECIFIC_REVERT_STATUSES: no such status: NO_SUCH_STATUS"},
		"plans":                    {[]string{"HBAR_SPENDING_PLANS_CONFIG=[1]"}, "HBAR_SPENDING_PLANS_CONFIG: "},
		"a file of plans":          {[]string{"HBAR_SPENDING_PLANS_CONFIG=" + empty}, "HBAR_SPENDING_PLANS_CONFIG: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(enough(test.more...))
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v; want %q", err, test.want)
			}
		})
	}
}

func TestLoadManagerRefusesWhatTheManagerRefuses(t *testing.T) {
	const chains = "TXM_CHAINS=31337=http://127.0.0.1:8545"
	for name, test := range map[string]struct {
		more []string
		want string
	}{
		"good":             {[]string{"DATABASE_URL=postgres://me:sesame@127.0.0.1/txm"}, ""},
		"memory":           {[]string{"DATABASE_URL=memory:"}, ""},
		"another driver":   {[]string{"DATABASE_URL=postgresql+asyncpg://me@127.0.0.1/txm?ssl=disable"}, ""},
		"another database": {[]string{"DATABASE_URL=mysql://me:sesame@127.0.0.1/txm"}, `DATABASE_URL: want sqlite:FILE, memory: or postgres://…, got scheme "mysql"`},
		"no file":          {[]string{"DATABASE_URL=sqlite:"}, "DATABASE_URL: sqlite: needs the name of a file"},
		"no URL":           {[]string{"DATABASE_URL=postgres://me:sesame@127.0.0.1:port/txm"}, "DATABASE_URL: not a PostgreSQL URL"},
		"redis":            {[]string{"TXM_REDIS_URL=http://127.0.0.1:1"}, "TXM_REDIS_URL: redis URL: scheme must be"},
		"webhooks":         {[]string{"TXM_WEBHOOK_NETWORKS=inside"}, "TXM_WEBHOOK_NETWORKS: "},
		"a key":            {[]string{"RELAYER_PRIVATE_KEYS=sesame"}, "RELAYER_PRIVATE_KEYS"},
		"a key of NEAR":    {[]string{"TXM_NEAR_KEYS=sesame"}, "TXM_NEAR_KEYS: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := LoadManager(append([]string{chains}, test.more...))
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Fatalf("%v; want %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "sesame") {
				t.Errorf("a secret is shown: %v", err)
			}
		})
	}
}

func TestLoadWatchersRefusesWhatTheWatchersRefuse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "url")
	must.Do(t, os.WriteFile(file, []byte("mysql://127.0.0.1/watch\n"), 0o600))
	for name, test := range map[string]struct {
		more []string
		want string
	}{
		"good":             {[]string{"DATABASE_URL=sqlite:watch.db", "WATCH_WEBHOOK_ALLOW=10.0.0.0/8", "WATCH_ADDRESS=off"}, ""},
		"another database": {[]string{"DATABASE_URL=mysql://127.0.0.1/watch"}, `DATABASE_URL: want sqlite:FILE, memory: or postgres://…, got scheme "mysql"`},
		"one of a file":    {[]string{"DATABASE_URL=sqlite:watch.db", "DATABASE_URL_FILE=" + file}, `got scheme "mysql"`},
		"webhooks":         {[]string{"WATCH_WEBHOOK_ALLOW=inside"}, "WATCH_WEBHOOK_ALLOW: "},
		"its listener":     {[]string{"WATCH_ADDRESS=127.0.0.1"}, "WATCH_ADDRESS: want host:port, or off"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := LoadWatchers(test.more)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v; want %q", err, test.want)
			}
		})
	}
}
