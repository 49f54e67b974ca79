package chart

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/yannh/kubeconform/pkg/validator"
	"sigs.k8s.io/yaml"
)

const (
	root     = "../.."
	chartDir = root + "/packaging/helm/lockstep"
)

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
prometheusRule: {enabled: true, labels: {release: prometheus}}
secretFiles: {secretName: files, settings: {OPERATOR_KEY_MAIN_FILE: operator-key, REDIS_URL_FILE: redis-url}}
extraEnv: [{name: OTEL_SERVICE_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
extraVolumes: [{name: keys, configMap: {name: "{{ .Release.Name }}-keys"}}]
extraVolumeMounts: [{name: keys, mountPath: /keys, readOnly: true}]
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
	check := get(validator.New([]string{location}, validator.Opts{Strict: true, SkipKinds: map[string]struct{}{"ServiceMonitor": {}, "PrometheusRule": {}}, KubernetesVersion: "1.34.2"}))(t)
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

// custom reads an object of a kind that the operator of Prometheus defines.
func custom[T any](t *testing.T, r rendered, kind string) (out T) {
	t.Helper()
	text := get(yaml.Marshal(r.objects[kind]))(t)
	do(t, yaml.UnmarshalStrict(text, &out))
	return out
}

func TestServiceMonitor(t *testing.T) {
	monitor := custom[monitoring.ServiceMonitor](t, render(t, everything), "ServiceMonitor")
	if monitor.Spec.Endpoints[0].Path != "/metrics" || monitor.Labels["release"] != "prometheus" {
		t.Errorf("%+v", monitor)
	}
}

// The job of the metrics is one that the alert rules find.
func TestJob(t *testing.T) {
	for values, want := range map[string]string{
		"serviceMonitor: {enabled: true}":                                "mine-lockstep-relay",
		"{fullnameOverride: our-relay, serviceMonitor: {enabled: true}}": "our-relay",
		"serviceMonitor: {enabled: true, job: relay-one}":                "relay-one",
	} {
		rules := custom[monitoring.ServiceMonitor](t, render(t, values), "ServiceMonitor").Spec.Endpoints[0].RelabelConfigs
		if len(rules) != 1 || rules[0].TargetLabel != "job" || rules[0].Replacement == nil || *rules[0].Replacement != want {
			t.Errorf("%s: %+v, want the job %s", values, rules, want)
		}
	}
	if _, _, err := template(chartDir, "serviceMonitor: {enabled: true, job: lockstep}", nil); err == nil || !strings.Contains(err.Error(), `must contain "relay"`) {
		t.Errorf("a job that no alert finds: %v", err)
	}
}

// The alert rules in the cluster are those of docs.
func TestPrometheusRule(t *testing.T) {
	rule := custom[monitoring.PrometheusRule](t, render(t, everything), "PrometheusRule")
	text := get(os.ReadFile(filepath.Join(root, "docs/relay-alerts.yml")))(t)
	var want monitoring.PrometheusRuleSpec
	do(t, yaml.UnmarshalStrict(text, &want))
	if !reflect.DeepEqual(rule.Spec, want) || len(want.Groups) == 0 || rule.Labels["release"] != "prometheus" {
		t.Errorf("%+v, want %+v", rule, want)
	}
	if there := render(t, "").objects["PrometheusRule"]; there != nil {
		t.Errorf("nobody has asked for %v", there)
	}
}

// Secrets come as files, too, and pods have more variables and volumes.
func TestSecretFilesAndVolumes(t *testing.T) {
	r := render(t, everything)
	pod := object(r.objects["Deployment"].at(t, "spec", "template", "spec").(map[string]any))
	for want, got := range map[string]any{
		"/run/secrets/lockstep/operator-key": pod.at(t, "containers", 0, "env", 0, "value"),
		"REDIS_URL_FILE":                     pod.at(t, "containers", 0, "env", 1, "name"),
		"OTEL_SERVICE_NAME":                  pod.at(t, "containers", 0, "env", 2, "name"),
		"/run/secrets/lockstep":              pod.at(t, "containers", 0, "volumeMounts", 1, "mountPath"),
		"/keys":                              pod.at(t, "containers", 0, "volumeMounts", 2, "mountPath"),
		"files":                              pod.at(t, "volumes", 1, "secret", "secretName"),
		"288":                                pod.at(t, "volumes", 1, "secret", "defaultMode"), // 0440
		"mine-keys":                          pod.at(t, "volumes", 2, "configMap", "name"),
	} {
		if fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}
	for values, want := range map[string]string{
		"secretFiles: {settings: {OPERATOR_KEY_MAIN_FILE: key}}":               "needs secretFiles.secretName",
		"secretFiles: {secretName: files, settings: {OPERATOR_KEY_MAIN: key}}": "does not end in _FILE",
	} {
		if _, _, err := template(chartDir, values, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", values, err)
		}
	}
}

// Other settings and other secrets are other pods.
func TestChecksums(t *testing.T) {
	const values = "{existingSecret: one, secretFiles: {secretName: two, settings: {A_FILE: a}}, extraEnvFrom: [{secretRef: {name: '{{ .Release.Name }}-three'}}, {configMapRef: {name: four}}]}"
	sums := func(secrets secrets, values string) [2]any {
		text, _, err := template(chartDir, values, secrets)
		if err != nil {
			t.Fatal(err)
		}
		annotations := objects(t, text)["Deployment"].at(t, "spec", "template", "metadata", "annotations").(map[string]any)
		return [2]any{annotations["checksum/config"], annotations["checksum/secret"]}
	}
	before := sums(secrets{"one": "a", "two": "a", "mine-three": "a", "other": "a"}, values)
	for name, now := range map[string]secrets{
		"one": {"one": "b", "two": "a", "mine-three": "a"}, "two": {"one": "a", "two": "b", "mine-three": "a"}, "three": {"one": "a", "two": "a", "mine-three": "b"}, "none yet": {},
	} {
		if after := sums(now, values); after[1] == before[1] || after[0] != before[0] {
			t.Errorf("%s changes: %v, before %v", name, after, before)
		}
	}
	if after := sums(secrets{"one": "a", "two": "a", "mine-three": "a", "other": "b"}, values); after != before {
		t.Errorf("another Secret changes: %v, before %v", after, before)
	}
	if sums(nil, "")[0] == sums(nil, "config: {LOG_LEVEL: debug}")[0] {
		t.Error("a setting changes no checksum")
	}
}

func TestNotesTellTheKeyFormat(t *testing.T) {
	for values, want := range map[string]bool{"": true, "config: {OPERATOR_KEY_FORMAT: HEX_ECDSA}": false, "config: {READ_ONLY: true}": false} {
		if notes := render(t, values).notes; strings.Contains(notes, "OPERATOR_KEY_FORMAT is empty") != want {
			t.Errorf("%s: %s", values, notes)
		}
	}
}

func TestEverythingIsThere(t *testing.T) {
	r := render(t, everything)
	want := []string{"ConfigMap", "Deployment", "HorizontalPodAutoscaler", "Ingress", "PodDisruptionBudget", "PrometheusRule", "Service", "ServiceAccount", "ServiceMonitor"}
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
	const warning = "WARNING: there are several replicas without Redis"
	if !strings.Contains(r.notes, warning) {
		t.Errorf("notes: %s", r.notes)
	}
	if notes := render(t, "").notes; strings.Contains(notes, warning) {
		t.Errorf("the chart warns of its own defaults: %s", notes)
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
