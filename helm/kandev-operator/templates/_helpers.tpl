{{/* The names of everything that lies in the release's namespace begin with this. */}}
{{- define "kandev.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 48 | trimSuffix "-" -}}
{{- else if hasPrefix .Release.Name $name -}}
{{- $name | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 48 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Names of what lies in no namespace: two releases in two namespaces must not meet. */}}
{{- define "kandev.clustername" -}}
{{ include "kandev.fullname" . }}.{{ .Release.Namespace }}
{{- end -}}

{{- define "kandev.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "kandev.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end -}}

{{- define "kandev.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: kandev-operator
{{- end -}}

{{/* What the pods of one part are chosen by; it never changes. Takes the root and the part's name. */}}
{{- define "kandev.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{/* The name of an image: prefix, repository, and digest or tag. Takes the root and the image. */}}
{{- define "kandev.image" -}}
{{- $prefix := .root.Values.image.registry | trimSuffix "/" -}}
{{- if $prefix }}{{ $prefix }}/{{ end }}{{ .image.repository }}
{{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ .image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end -}}

{{- define "kandev.podSecurity" -}}
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "kandev.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* What is `auto` is so where the whole cluster is watched. */}}
{{- define "kandev.auto" -}}
{{- if eq (toString .value) "auto" }}{{ empty .root.Values.watch.namespaces }}{{ else }}{{ .value }}{{ end }}
{{- end -}}

{{/* Where who leads holds a Lease, as JSON: in every namespace that is watched, or at the place that
     all operators of the whole cluster know. So no two that overlap lead. */}}
{{- define "kandev.leaseNamespaces" -}}
{{- .Values.watch.namespaces | default (list .Values.lease.namespace) | toJson -}}
{{- end -}}

{{/* Whether the gateway's history is a file on a volume; empty: it is a PostgreSQL database. */}}
{{- define "kandev.gatewaySqlite" -}}
{{- if not .Values.gateway.postgresql.secretName }}true{{ end }}
{{- end -}}

{{- define "kandev.gatewayName" -}}
{{ include "kandev.fullname" . }}-gateway
{{- end -}}

{{/* Where people reach the gateway, divided by spaces. Other hosts are refused, so a way in whose name
     nobody knows would lead nowhere. */}}
{{- define "kandev.gatewayUrls" -}}
{{- $gateway := .Values.gateway -}}
{{- $host := $gateway.ingress.host | default "" -}}
{{- if $gateway.publicUrls -}}
{{- join " " $gateway.publicUrls -}}
{{- else if and $gateway.ingress.enabled (not (contains "*" $host)) -}}
{{- if $host -}}{{ ternary "https" "http" (not (empty $gateway.ingress.tlsSecretName)) }}://{{ $host }}{{- end -}}
{{- else if or $gateway.ingress.enabled $gateway.httpRoute.enabled -}}
{{- fail "gateway.publicUrls are needed: where people reach the gateway, such as https://kandev.example.com" -}}
{{- end -}}
{{- end -}}

{{/* One process has the file; a database has room for two, or as many as are asked for. */}}
{{- define "kandev.gatewayReplicas" -}}
{{- if include "kandev.gatewaySqlite" . }}1{{ else }}{{ .Values.gateway.replicas }}{{ end }}
{{- end -}}
