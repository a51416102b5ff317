{{/* What the operator does with queues and what belongs to them, verb by verb. tests/cluster compares this with what it
really asks the API server for. */}}
{{- define "claimq.rules" -}}
- apiGroups: [claimq.dev]
  resources: [reliablequeues]
  verbs: [list, watch, patch]
- apiGroups: [claimq.dev]
  resources: [reliablequeues/status]
  verbs: [patch]
# Children are applied: that is a patch, and a create where there is none yet.
- apiGroups: [apps]
  resources: [deployments]
  verbs: [list, watch, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [create, patch]
# Worker pods are watched for dead containers; which of them goes first is written on them.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, patch]
# One by one, those that queues name; never all.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end -}}
