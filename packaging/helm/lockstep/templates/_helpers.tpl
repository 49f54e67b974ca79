{{- define "lockstep.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "lockstep.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "lockstep.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "lockstep.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "lockstep.namespace" -}}
{{- default .Release.Namespace .Values.global.namespaceOverride }}
{{- end }}

{{- define "lockstep.selector" -}}
app.kubernetes.io/name: {{ include "lockstep.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "lockstep.metadata" -}}
name: {{ include "lockstep.fullname" . }}
namespace: {{ include "lockstep.namespace" . }}
labels:
  {{- include "lockstep.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "lockstep.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "lockstep.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* The label job of the metrics, by which alert rules and dashboards find relays. */}}
{{- define "lockstep.job" -}}
{{- $name := include "lockstep.fullname" . }}
{{- $job := default (contains "relay" $name | ternary $name (printf "%s-relay" $name)) .Values.serviceMonitor.job }}
{{- if not (contains "relay" $job) }}{{ fail (printf "serviceMonitor.job is %q: it must contain \"relay\"" $job) }}{{ end }}
{{- $job }}
{{- end }}

{{/* What the Secrets contain that the pods use. Helm reads them from the cluster, and has nothing of them without one (helm template). */}}
{{- define "lockstep.secrets" -}}
{{- $names := list .Values.existingSecret .Values.secretFiles.secretName }}
{{- range fromYamlArray (tpl (toYaml .Values.extraEnvFrom) .) }}
{{- with .secretRef }}{{ $names = append $names .name }}{{ end }}
{{- end }}
{{- range compact $names }}
{{ . }}: {{ (lookup "v1" "Secret" (include "lockstep.namespace" $) .).data | toJson }}
{{- end }}
{{- end }}

{{- define "lockstep.webSocket" -}}
{{- if eq (toString .Values.config.RPC_WS_ENABLED) "true" }}yes{{ end }}
{{- end }}

{{/* A setting as text. Helm reads numbers as floating point, which would be written with an exponent. */}}
{{- define "lockstep.text" -}}
{{- if kindIs "float64" . }}
{{- if eq (floor .) . }}{{ printf "%.0f" . }}{{ else }}{{ toString . }}{{ end }}
{{- else if or (kindIs "slice" .) (kindIs "map" .) }}{{ toJson . }}
{{- else }}{{ toString . }}
{{- end }}
{{- end }}
