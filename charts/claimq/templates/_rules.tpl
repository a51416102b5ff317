{{/* What the operator does with queues and what belongs to them, verb by verb. tests/cluster compares this with what it
really asks the API server for. */}}
{{- define "claimq.rules" -}}
- apiGroups: [claimq.dev]
  resources: [reliablequeues]
  verbs: [list, watch, patch]
- apiGroups: [claimq.dev]
  resources: [reliablequeues/status]
  verbs: [patch]
# Children: get to check the owner, patch to apply, create if there is none.
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  # list: while another budget selects the pods, ours must not.
  verbs: [get, list, create, patch]
# Worker pods: watched for terminated containers; their deletion cost is set by patch.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
# The Lease of a namespace records which release manages its queues.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [queues.claimq.dev]
  verbs: [get, patch]
{{- end -}}
{{/* What the web page does. tests/cluster compares this too. */}}
{{- define "claimq.webRules" -}}
- apiGroups: [claimq.dev]
  resources: [reliablequeues]
  verbs: [list{{ if .Values.web.actions }}, patch{{ end }}]
- apiGroups: [""]
  resources: [events]
  verbs: [list{{ if .Values.web.actions }}, create{{ end }}]
{{- if .Values.web.actions }}
# To drain a worker: which pod it is, and its eviction.
- apiGroups: [""]
  resources: [pods]
  verbs: [get]
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
{{- end }}
{{- end -}}
{{- define "claimq.producerRules" -}}
- apiGroups: [claimq.dev]
  resources: [reliablequeues]
  verbs: [list]
{{- end -}}
{{- define "claimq.secretRules" -}}
# Single Secrets by name; never a list.
- apiGroups: [""]
  resources: [secrets]
  {{- with .Values.rbac.secrets.names }}
  resourceNames: {{ toJson . }}
  {{- end }}
  verbs: [get]
{{- end -}}
