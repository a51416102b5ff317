{{/* The name of the chart, as it stands in labels. */}}
{{- define "claimq.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name that all objects of a release begin with. 40 characters leave room for what is put behind it. */}}
{{- define "claimq.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "claimq.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels of every object; call with (dict "root" . "component" "operator"). */}}
{{- define "claimq.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: claimq
{{ include "claimq.selector" . }}
{{- end -}}

{{/* What selects the pods of one component. */}}
{{- define "claimq.selector" -}}
app.kubernetes.io/name: {{ include "claimq.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* A whole image; call with (dict "root" . "image" .Values.operator.image). */}}
{{- define "claimq.image" -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (default .root.Chart.AppVersion .image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "claimq.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "claimq.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "claimq.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Security of a pod and of a container, as Pod Security `restricted` asks for, and a little more. */}}
{{- define "claimq.podSecurity" -}}
runAsNonRoot: true
seccompProfile:
  type: RuntimeDefault
{{- with .Values.podSecurityContext }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "claimq.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "claimq.valkeyName" -}}
{{ include "claimq.fullname" . }}-valkey
{{- end -}}

{{/* The address of the release's Valkey, as queues of every namespace reach it; empty without one. */}}
{{- define "claimq.valkeyUrl" -}}
{{- if .Values.valkey.enabled -}}
redis://{{ include "claimq.valkeyName" . }}.{{ .Release.Namespace }}.svc:6379/0
{{- end -}}
{{- end -}}

{{- define "claimq.testUrl" -}}
{{- default (include "claimq.valkeyUrl" .) .Values.tests.redisUrl -}}
{{- end -}}

{{/* Where the test has its queue: the release's namespace, if the operator serves it. */}}
{{- define "claimq.testNamespace" -}}
{{- if or (empty .Values.operator.namespaces) (has .Release.Namespace .Values.operator.namespaces) -}}
{{- .Release.Namespace -}}
{{- else -}}
{{- first .Values.operator.namespaces -}}
{{- end -}}
{{- end -}}
{{/* What queues may use besides what their namespaces and Secrets allow: for the operator and the web page. */}}
{{- define "claimq.grants" -}}
{{- with .Values.operator.queueNames }}
- name: CLAIMQ_QUEUE_NAMES
  value: {{ join "," . | quote }}
{{- end }}
{{- with .Values.operator.passwordHosts }}
- name: CLAIMQ_PASSWORD_HOSTS
  value: {{ join "," . | quote }}
{{- end }}
{{- end -}}
