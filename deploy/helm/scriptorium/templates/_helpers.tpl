{{/*
Names are the same in every release, since a cluster has one fleet: the definitions, the
webhook and the folders on the nodes are there once.
*/}}

{{- define "scriptorium.labels" -}}
app.kubernetes.io/name: scriptorium
app.kubernetes.io/part-of: scriptorium
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* The labels of pods: those that selectors name, which can never change. */}}
{{- define "scriptorium.podLabels" -}}
app.kubernetes.io/name: scriptorium
app.kubernetes.io/part-of: scriptorium
{{- end }}

{{- define "scriptorium.image" -}}
{{- with .root.Values.image -}}
{{- if .registry }}{{ .registry }}/{{ end }}{{ .repository }}/{{ $.name }}:{{ $.tag | default .tag | default $.root.Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "scriptorium.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "scriptorium.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop:
    - ALL
{{- end }}

{{/* The environment of what sends traces. */}}
{{- define "scriptorium.tracingEnv" -}}
{{- with .Values.tracing -}}
{{- if .endpoint -}}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ .endpoint | quote }}
- name: OTEL_EXPORTER_OTLP_PROTOCOL
  value: {{ .protocol }}
{{- end }}
{{- end }}
{{- end }}

{{/* Where the pods of a part may run. */}}
{{- define "scriptorium.placement" -}}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .part.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
nodeSelector:
  {{- merge (dict) (.part.nodeSelector | default dict) (dict "kubernetes.io/os" "linux") | toYaml | nindent 2 }}
{{- with .part.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .part.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .part.spread }}
topologySpreadConstraints:
  {{- range $key, $unsatisfiable := dict "kubernetes.io/hostname" "DoNotSchedule" "topology.kubernetes.io/zone" "ScheduleAnyway" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: {{ $unsatisfiable }}
    # A control plane that takes no pods is no node to be even with.
    nodeTaintsPolicy: Honor
    labelSelector:
      matchLabels:
        app.kubernetes.io/name: scriptorium
        app.kubernetes.io/component: {{ $.name }}
    matchLabelKeys:
      - pod-template-hash
  {{- end }}
{{- end }}
{{- end }}

{{/* A change of the endpoints replaces the pods that read them. */}}
{{- define "scriptorium.podAnnotations" -}}
{{- with .checksum }}
checksum/config: {{ . | sha256sum }}
{{- end }}
{{- with .part.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "scriptorium.etcdEndpoints" -}}
{{- if .Values.etcd.enabled -}}
{{- if .Values.etcd.endpoints }}{{ fail "etcd.endpoints: of no use while etcd.enabled is true" }}{{ end -}}
https://scriptorium-etcd:2379
{{- else -}}
{{ required "etcd.endpoints: say where etcd is, or set etcd.enabled" (join "," .Values.etcd.endpoints) }}
{{- end -}}
{{- end }}

{{- define "scriptorium.natsURLs" -}}
{{- if .Values.nats.enabled -}}
{{- if .Values.nats.urls }}{{ fail "nats.urls: of no use while nats.enabled is true" }}{{ end -}}
tls://scriptorium-nats:4222
{{- else -}}
{{ required "nats.urls: say where NATS is, or set nats.enabled" (join "," .Values.nats.urls) }}
{{- end -}}
{{- end }}

{{- define "scriptorium.secretVolume" -}}
- name: {{ . }}
  secret:
    secretName: scriptorium-{{ . }}
    defaultMode: 0440
{{- end }}

{{- define "scriptorium.secretMount" -}}
- name: {{ . }}
  mountPath: /etc/scriptorium/{{ . }}
  readOnly: true
{{- end }}

{{- define "scriptorium.httpFlags" -}}
{{- with .Values.agent.http -}}
{{- if .enabled -}}
{{- if not .tlsSecret }}{{ fail "agent.http.tlsSecret: name a Secret with tls.crt and tls.key" }}{{ end -}}
{{- if not .callers }}{{ fail "agent.http.callers: say who may call, and for which tenants" }}{{ end -}}
{{- range .callers -}}
{{- if and .certificates (not $.Values.agent.http.clientCertificates) -}}
{{- fail (printf "agent.http.clientCertificates: the caller %s has a certificate, so set it, and add ca.crt to agent.http.tlsSecret" .name) -}}
{{- end -}}
{{- end -}}
- --http-listen=:{{ .port }}
- --http-callers=/etc/scriptorium/http-callers/callers.yaml
- --http-cert=/etc/scriptorium/http-tls/tls.crt
- --http-key=/etc/scriptorium/http-tls/tls.key
{{- if .clientCertificates }}
- --http-client-ca=/etc/scriptorium/http-tls/ca.crt
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "scriptorium.publishersFlag" -}}
{{- if .Values.tenantKeys -}}
- --tenant-keys=/etc/scriptorium/publishers/tenant-keys.yaml
{{- end }}
{{- end }}

{{- define "scriptorium.publishersMount" -}}
{{- if .Values.tenantKeys -}}
- name: publishers
  mountPath: /etc/scriptorium/publishers
  readOnly: true
{{- end }}
{{- end }}

{{- define "scriptorium.publishersVolume" -}}
{{- with .Values.tenantKeys -}}
- name: publishers
  configMap:
    name: {{ . }}
{{- end }}
{{- end }}

{{- define "scriptorium.probes" -}}
{{- if .slow }}
{{- /* Probes are served when all of etcd, or of the disk, is read. */}}
startupProbe:
  httpGet:
    path: {{ .alive }}
    port: {{ .port }}
  periodSeconds: 1
  failureThreshold: 600
{{- end }}
readinessProbe:
  httpGet:
    path: {{ .ready }}
    port: {{ .port }}
  periodSeconds: 2
livenessProbe:
  httpGet:
    path: {{ .alive }}
    port: {{ .port }}
  periodSeconds: 10
  failureThreshold: 6
{{- end }}
