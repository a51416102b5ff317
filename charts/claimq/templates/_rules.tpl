{{/* What the operator does with queues and what belongs to them, verb by verb. tests/cluster compares this with what it
really asks the API server for. */}}
{{- define "claimq.rules" -}}
- apiGroups: [claimq.dev]
  resources: [reliablequeues]
  verbs: [list, watch, patch]
- apiGroups: [claimq.dev]
  resources: [reliablequeues/status]
  verbs: [patch]
# Children are applied, after a look whose they are: that is a get, a patch, and a create where there is none yet.
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, create, patch]
# Worker pods are watched for dead containers; which of them goes first is written on them.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end -}}
{{- define "claimq.secretRules" -}}
# One by one, those that queues name; never all.
- apiGroups: [""]
  resources: [secrets]
  {{- with .Values.rbac.secrets.names }}
  resourceNames: {{ toJson . }}
  {{- end }}
  verbs: [get]
{{- end -}}
