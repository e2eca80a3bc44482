{{- define "lance-gateway.name" -}}
{{- if contains .Chart.Name .Release.Name -}}{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else -}}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{- end -}}
{{- end }}

{{- define "lance-gateway.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "lance-gateway.labels" -}}
{{ include "lance-gateway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "lance-gateway.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "lance-gateway.env" -}}
- name: LANCE_GATEWAY_CONFIG
  value: /etc/lance-gateway/lance.toml
- name: LANCE_GATEWAY_ROOT
  value: {{ required "root: name the prefix of the tables" .Values.root | quote }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "lance-gateway.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: ["ALL"] }
{{- end }}

{{- define "lance-gateway.pod" -}}
{{- with .Values.serviceAccount.name }}
serviceAccountName: {{ . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: { type: RuntimeDefault }
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "lance-gateway.mounts" -}}
- { name: config, mountPath: /etc/lance-gateway, readOnly: true }
- { name: tmp, mountPath: /tmp }
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "lance-gateway.volumes" -}}
- name: config
  configMap: { name: {{ include "lance-gateway.name" . }} }
- name: tmp
  emptyDir: {}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
