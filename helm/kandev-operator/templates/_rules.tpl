{{/* What the operator may do where sessions live. No wildcard; every rule says why it is there. */}}
{{- define "kandev.rules.sessions" -}}
# What people and Git write is read, never written.
- apiGroups: [kandev.dev]
  resources: [agentprofiles, tasks]
  verbs: [get, list, watch]
# Delete: only for sessions with ttlSecondsAfterFinished.
- apiGroups: [kandev.dev]
  resources: [tasksessions]
  verbs: [get, list, watch, delete]
# Executors are made from a session's template and go with it. Patch: the finalizer of those whose
# agentctl runs outside the cluster.
- apiGroups: [kandev.dev]
  resources: [executors]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [kandev.dev]
  resources: [tasks/status, tasksessions/status, executors/status]
  verbs: [update]
# For owner references that hold up their owner's deletion, where the cluster checks them.
- apiGroups: [kandev.dev]
  resources: [tasksessions/finalizers, executors/finalizers]
  verbs: [update]
# The pods of executors: made, watched by label, deleted; never changed in place.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete]
# Workspaces, each by its name. No delete: the garbage collector removes a claim with its session.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, create]
# Each by its name: first prompts (get), and the public keys that agentctl checks its callers'
# tokens with, mounted into each executor's pod.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, create, update]
# At most two Events for each session.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
# What the kubelet and the scheduler say of a pod that does not come up.
- apiGroups: [""]
  resources: [events]
  verbs: [list]
{{- end -}}

{{/* Secrets, each by its name; they can neither be listed nor watched. */}}
{{- define "kandev.rules.secrets" -}}
# It keeps the resume token of each session in one (create, update), and reads those that a
# profile's environment, a prompt or a remote executor names (get).
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, update]
{{- end -}}

{{/* What belongs to no namespace. Without it the operator knows less, and says so. */}}
{{- define "kandev.rules.cluster" -}}
# Whether a silent pod's node is lost, merely silent, or declared out of service.
- apiGroups: [""]
  resources: [nodes]
  verbs: [get]
# Whether a workspace can be mounted by one pod alone (access mode ReadWriteOncePod).
- apiGroups: [storage.k8s.io]
  resources: [csidrivers]
  verbs: [get]
# List: which class is the default one.
- apiGroups: [storage.k8s.io]
  resources: [storageclasses]
  verbs: [get, list]
{{- end -}}

{{/* Whether another operator leads in a namespace. */}}
{{- define "kandev.rules.neighbours" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [list]
{{- end -}}

{{/* Who leads. Create cannot be limited by name. */}}
{{- define "kandev.rules.lease" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [kandev-operator]
  verbs: [get, update]
{{- end -}}

{{/* The signing key, and its public half. Create cannot be limited by name. */}}
{{- define "kandev.rules.keys" -}}
- apiGroups: [""]
  resources: [secrets, configmaps]
  verbs: [create]
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [kandev-signing-key]
  verbs: [get, update]
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [kandev-agentctl-jwks]
  verbs: [get, update]
# Where a gateway lays out its public key, which agentctls are then told of.
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [kandev-gateway-keys]
  verbs: [get]
{{- end -}}

{{/* What the gateway may do where sessions live: it looks, and makes and changes what people asked it
     for, after the API server said that they may. */}}
{{- define "kandev.rules.gateway" -}}
- apiGroups: [kandev.dev]
  resources: [agentprofiles, executors]
  verbs: [get, list, watch]
- apiGroups: [kandev.dev]
  resources: [tasks]
  verbs: [get, list, watch, create]
- apiGroups: [kandev.dev]
  resources: [tasksessions]
  verbs: [get, list, watch, create, patch]
{{- end -}}

{{/* Who somebody is, and what they may do. */}}
{{- define "kandev.rules.reviews" -}}
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end -}}

{{/* The key that it signs its calls of agentctl with, which is not the operator's and cannot start or
     stop an agent; and its public half, which the operator reads. Create cannot be limited by name. */}}
{{- define "kandev.rules.gatewayKey" -}}
- apiGroups: [""]
  resources: [secrets, configmaps]
  verbs: [create]
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [kandev-gateway-signing-key]
  verbs: [get]
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [kandev-gateway-keys]
  verbs: [get, update]
{{- end -}}

{{/* Takes the root, and an account where it is not the operator's. */}}
{{- define "kandev.subject" -}}
subjects:
  - kind: ServiceAccount
    name: {{ .account | default (include "kandev.serviceAccount" .root) }}
    namespace: {{ .root.Release.Namespace }}
{{- end -}}

{{/* A Role and its binding to the operator. Takes root, namespace, name and rules; an account where it
     is not the operator's. */}}
{{- define "kandev.role" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels:
    {{- include "kandev.labels" .root | nindent 4 }}
rules:
  {{- .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels:
    {{- include "kandev.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .name }}
{{ include "kandev.subject" . }}
{{- end -}}

{{/* A ClusterRole and its binding, likewise. Takes root, name and rules. */}}
{{- define "kandev.clusterRole" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .name }}
  labels:
    {{- include "kandev.labels" .root | nindent 4 }}
rules:
  {{- .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "kandev.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .name }}
{{ include "kandev.subject" . }}
{{- end -}}
