{{/* The operator's options, as the environment variables that `kandev-operator run --help` names. */}}
{{- define "kandev.operatorEnv" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
{{- if .Values.watch.namespaces }}
- name: KANDEV_NAMESPACE
  value: {{ join "," .Values.watch.namespaces | quote }}
{{- else }}
- name: KANDEV_ALL_NAMESPACES
  value: "true"
# Whoever leads in a namespace of its own is yielded to.
- name: KANDEV_EXCLUSIVE
  value: "true"
{{- end }}
- name: KANDEV_LEASE_NAMESPACE
  value: {{ include "kandev.leaseNamespaces" . | fromJsonArray | join "," | quote }}
- name: KANDEV_INSTALLATION
  value: {{ .Release.Namespace }}/{{ include "kandev.fullname" . }}
- name: KANDEV_KEY_NAMESPACE
  value: {{ .Release.Namespace | quote }}
- name: KANDEV_LEASE_SECONDS
  value: {{ .Values.operator.leaseSeconds | quote }}
- name: KANDEV_WORKERS
  value: {{ .Values.operator.workers | quote }}
- name: KANDEV_LOG_LEVEL
  value: {{ .Values.operator.logLevel | quote }}
- name: KANDEV_LOG_FORMAT
  value: {{ .Values.operator.logFormat | quote }}
- name: KANDEV_AGENTCTL_IMAGE
  value: {{ include "kandev.image" (dict "root" . "image" .Values.image.agentctl) | quote }}
{{- with .Values.executors.agentctlPullPolicy }}
- name: KANDEV_AGENTCTL_PULL_POLICY
  value: {{ . | quote }}
{{- end }}
- name: KANDEV_POD_USER
  value: {{ .Values.executors.podUser | quote }}
- name: KANDEV_WORKSPACE_SIZE
  value: {{ .Values.executors.workspaceSize | quote }}
- name: KANDEV_ALLOW_REMOTE_HOST
  value: {{ join "," .Values.remote.allowedHosts | default "none" | quote }}
{{- with .Values.operator.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}
