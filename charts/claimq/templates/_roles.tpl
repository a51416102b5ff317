{{/* The roles of one service account in the namespaces that the release serves, and their bindings; the rules for Secrets may
be in fewer of them. Call with (dict "root" . "name" NAME "labels" LABELS "rules" RULES "subject" SUBJECT). */}}
{{- define "claimq.roles" }}
{{- $secrets := include "claimq.secretRules" .root }}
{{- $apart := .root.Values.rbac.secrets.namespaces }}
{{- range .root.Values.operator.namespaces }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $.name }}
  namespace: {{ . }}
  labels:
    {{- $.labels | nindent 4 }}
rules:
  {{- $.rules | nindent 2 }}
  {{- if not $apart }}
  {{- $secrets | nindent 2 }}
  {{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $.name }}
  namespace: {{ . }}
  labels:
    {{- $.labels | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $.name }}
subjects:
  - {{- toYaml $.subject | nindent 4 }}
{{- else }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $.name }}
  labels:
    {{- $.labels | nindent 4 }}
rules:
  {{- $.rules | nindent 2 }}
  {{- if not $apart }}
  {{- $secrets | nindent 2 }}
  {{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $.name }}
  labels:
    {{- $.labels | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $.name }}
subjects:
  - {{- toYaml $.subject | nindent 4 }}
{{- end }}
{{- range $apart }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $.name }}-secrets
  namespace: {{ . }}
  labels:
    {{- $.labels | nindent 4 }}
rules:
  {{- $secrets | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $.name }}-secrets
  namespace: {{ . }}
  labels:
    {{- $.labels | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $.name }}-secrets
subjects:
  - {{- toYaml $.subject | nindent 4 }}
{{- end }}
{{- end }}
