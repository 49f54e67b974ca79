package chart

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/yannh/kubeconform/pkg/validator"
	"sigs.k8s.io/yaml"
)

const root = "../.."

// object is a rendered object.
type object map[string]any

// at follows members and places in lists.
func (o object) at(t *testing.T, path ...any) any {
	t.Helper()
	var now any = map[string]any(o)
	for _, step := range path {
		switch step := step.(type) {
		case string:
			in, ok := now.(map[string]any)
			if !ok || in[step] == nil {
				t.Fatalf("no %v in %v: %v", step, path, now)
			}
			now = in[step]
		case int:
			in, ok := now.([]any)
			if !ok || step >= len(in) {
				t.Fatalf("no %v in %v: %v", step, path, now)
			}
			now = in[step]
		}
	}
	return now
}

func (r rendered) settings(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, value := range r.objects["ConfigMap"].at(t, "data").(map[string]any) {
		text, ok := value.(string)
		if !ok {
			t.Errorf("%s is %v, no text", name, value)
		}
		out[name] = text
	}
	return out
}

const everything = `
replicaCount: 3
existingSecret: operator
extraEnvFrom: [{secretRef: {name: "{{ .Release.Name }}-more"}}]
imagePullSecrets: [{name: pull}]
config: {RPC_WS_ENABLED: true, WEB_SOCKET_PORT: 8546, REDIS_ENABLED: true, REDIS_URL: "redis://redis:6379", CHAIN_ID: "0x128", HEDERA_NETWORK: testnet,
  MIRROR_NODE_URL: "https://testnet.mirrornode.hedera.com", HBAR_RATE_LIMIT_TINYBAR: 25000000000, BATCH_REQUESTS_ENABLED: true, CORS_ALLOWED_ORIGINS: ["*"]}
ingress: {enabled: true, className: nginx, annotations: {a: b}, tls: [{secretName: tls, hosts: [lockstep.example]}]}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
autoscaling: {enabled: true, minReplicas: 2, targetMemoryUtilizationPercentage: 70, loadBalancerRPS: {enabled: true, metricSelector: {a: b}},
  extraMetrics: [{type: External, external: {metric: {name: m}, target: {type: AverageValue, averageValue: "0.8"}}}]}
service: {type: LoadBalancer, annotations: {a: b}}
serviceAccount: {annotations: {a: b}, name: other}
podAnnotations: {a: b}
nodeSelector: {a: b}
tolerations: [{key: a, operator: Exists}]
affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {a: b}}}}]}}
`

// peers are values as an operator of hiero-json-rpc-relay's chart has them, with some that mean nothing here.
const peers = `
replicaCount: 4
image: {registry: registry.example, repository: own/lockstep, tag: "7"}
existingSecret: relay-operator
config:
  CHAIN_ID: '0x127'
  HEDERA_NETWORK: mainnet
  MIRROR_NODE_URL: https://mainnet.mirrornode.hedera.com
  SERVER_PORT: 7546
  MIRROR_NODE_TIMEOUT: 20000
  TIER_1_RATE_LIMIT: 1000
  LOG_LEVEL: info
  MIRROR_NODE_RETRY_CODES:
redis: {autoconfig: true}
rolling_restart: {enabled: true, schedule: '@daily'}
test: {enabled: false}
cronjob: {enabled: false}
fullnameOverride: rpc
global: {namespaceOverride: hedera}
livenessProbe: {failureThreshold: 7, httpGet: {path: /health/liveness, port: jsonrpcrelay}, periodSeconds: 10, timeoutSeconds: 5}
resources: {limits: {cpu: 1100m, memory: 700Mi}, requests: {cpu: 1100m, memory: 350Mi}}
terminationGracePeriodSeconds: 90
ingress: {enabled: true, hosts: [{host: relay.example, paths: [{path: /, pathType: ImplementationSpecific}]}]}
`

func TestChartIsValid(t *testing.T) {
	location := schemas(t)
	check, err := validator.New([]string{location}, validator.Opts{Strict: true, SkipKinds: map[string]struct{}{"ServiceMonitor": {}}, KubernetesVersion: "1.34.2"})
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range map[string]string{"as it is": "", "everything": everything, "the peer's": peers, "no account": "serviceAccount: {create: false}"} {
		t.Run(name, func(t *testing.T) {
			r := render(t, values)
			for _, result := range check.Validate("chart", io.NopCloser(strings.NewReader(r.text))) {
				switch result.Status {
				case validator.Valid, validator.Skipped, validator.Empty:
				default:
					text, _ := result.Resource.Signature()
					t.Errorf("%v: %v", text, result.Err)
				}
			}
		})
	}
	t.Run("a mistake is found", func(t *testing.T) {
		text := strings.Replace(render(t, "").text, "containerPort:", "containerport:", 1)
		if !slices.ContainsFunc(check.Validate("chart", io.NopCloser(strings.NewReader(text))), func(r validator.Result) bool { return r.Status == validator.Invalid }) {
			t.Error("a member that does not exist is valid")
		}
	})
}

func TestServiceMonitor(t *testing.T) {
	r := render(t, everything)
	text, err := yaml.Marshal(r.objects["ServiceMonitor"])
	if err != nil {
		t.Fatal(err)
	}
	var monitor monitoring.ServiceMonitor
	if err := yaml.UnmarshalStrict(text, &monitor); err != nil {
		t.Fatal(err)
	}
	if monitor.Spec.Endpoints[0].Path != "/metrics" || monitor.Labels["release"] != "prometheus" {
		t.Errorf("%+v", monitor)
	}
}

func TestEverythingIsThere(t *testing.T) {
	r := render(t, everything)
	want := []string{"ConfigMap", "Deployment", "HorizontalPodAutoscaler", "Ingress", "PodDisruptionBudget", "Service", "ServiceAccount", "ServiceMonitor"}
	if got := slices.Sorted(maps.Keys(r.objects)); !slices.Equal(got, want) {
		t.Errorf("kinds %q", got)
	}
	settings := r.settings(t)
	for name, value := range map[string]string{"HBAR_RATE_LIMIT_TINYBAR": "25000000000", "CORS_ALLOWED_ORIGINS": `["*"]`, "BATCH_REQUESTS_ENABLED": "true", "SERVER_PORT": "7546"} {
		if settings[name] != value {
			t.Errorf("%s is %q, want %q", name, settings[name], value)
		}
	}
	d := r.objects["Deployment"]
	if d["spec"].(map[string]any)["replicas"] != nil {
		t.Error("the number of replicas is not left to the autoscaler")
	}
	pod := object(d.at(t, "spec", "template", "spec").(map[string]any))
	if got := pod.at(t, "containers", 0, "envFrom", 2, "secretRef", "name"); got != "mine-more" {
		t.Errorf("the Secret's template gave %v", got)
	}
	if got := pod.at(t, "containers", 0, "ports", 1, "containerPort"); fmt.Sprint(got) != "8546" {
		t.Errorf("the port of WebSocket is %v", got)
	}
	if got := pod.at(t, "containers", 0, "securityContext", "readOnlyRootFilesystem"); got != true {
		t.Error("the root file system can be written")
	}
	if got := pod["serviceAccountName"]; got != "other" || r.objects["ServiceAccount"].at(t, "metadata", "name") != "other" {
		t.Errorf("the account is %v", got)
	}
	if strings.Contains(r.notes, "WARNING") {
		t.Errorf("notes: %s", r.notes)
	}
}

// Values of the peer's chart mean the same here.
func TestPeersValues(t *testing.T) {
	r := render(t, peers)
	d := r.objects["Deployment"]
	for want, got := range map[string]any{
		"rpc": d.at(t, "metadata", "name"), "hedera": d.at(t, "metadata", "namespace"), "4": d.at(t, "spec", "replicas"), "90": d.at(t, "spec", "template", "spec", "terminationGracePeriodSeconds"),
		"registry.example/own/lockstep:7": d.at(t, "spec", "template", "spec", "containers", 0, "image"),
		"relay-operator":                  d.at(t, "spec", "template", "spec", "containers", 0, "envFrom", 1, "secretRef", "name"),
		"7":                               d.at(t, "spec", "template", "spec", "containers", 0, "livenessProbe", "failureThreshold"),
		"350Mi":                           d.at(t, "spec", "template", "spec", "containers", 0, "resources", "requests", "memory"),
		"relay.example":                   r.objects["Ingress"].at(t, "spec", "rules", 0, "host"),
	} {
		if fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}
	settings := r.settings(t)
	if settings["MIRROR_NODE_TIMEOUT"] != "20000" || settings["CHAIN_ID"] != "0x127" {
		t.Errorf("settings %v", settings)
	}
	if _, there := settings["MIRROR_NODE_RETRY_CODES"]; there {
		t.Error("an empty setting is not left out")
	}
	if !strings.Contains(r.notes, "WARNING: there are several replicas without Redis") {
		t.Errorf("notes: %s", r.notes)
	}
}

// The relay takes the settings that the chart gives it, and knows every name.
func TestRelayTakesTheSettings(t *testing.T) {
	program := filepath.Join(t.TempDir(), "lockstep")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/lockstep")
	build.Dir = root
	build.Env = append(os.Environ(), "GOFLAGS=-trimpath")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, values := range map[string]string{"everything": everything, "the peer's": peers} {
		t.Run(name, func(t *testing.T) {
			check := exec.CommandContext(t.Context(), program, "config", "check")
			check.Dir = t.TempDir()
			// What the Secret has; the key is of nobody.
			check.Env = []string{"OPERATOR_ID_MAIN=0.0.2", "OPERATOR_KEY_FORMAT=HEX_ECDSA", "OPERATOR_KEY_MAIN=0x" + strings.Repeat("1", 64)}
			for name, value := range render(t, values).settings(t) {
				check.Env = append(check.Env, name+"="+value)
			}
			out, err := check.CombinedOutput()
			if err != nil || bytes.Contains(out, []byte("not a setting")) || bytes.Contains(out, []byte("misspelt")) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
