{{/* The beginning of all names: short enough for the names of a pool's pods, and without dots, because a worker's name has none. */}}
{{- define "ango.name" -}}
{{- $name := ternary .Release.Name (printf "%s-ango" .Release.Name) (contains "ango" .Release.Name) -}}
{{- $name | replace "." "-" | trunc 24 | trimSuffix "-" -}}
{{- end }}

{{/* Labels that select pods. Takes the root, a component, and the pool of a worker. */}}
{{- define "ango.selector" -}}
app.kubernetes.io/name: ango
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- with .pool }}
ango-pool: {{ . }}
{{- end }}
{{- end }}

{{- define "ango.labels" -}}
{{ include "ango.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{/* A pool's values: the defaults of `workers`, of which the pool replaces each that it names. */}}
{{- define "ango.pool" -}}
{{- $values := deepCopy .root.Values.workers -}}
{{- range $name, $value := .pool -}}
{{- $_ := set $values $name $value -}}
{{- end -}}
{{- toYaml $values -}}
{{- end }}

{{- define "ango.image" -}}
{{- $image := mergeOverwrite (deepCopy .root.Values.image) (deepCopy .image) -}}
image: {{ printf "%s:%s" $image.repository (default .root.Chart.AppVersion $image.tag) | quote }}
imagePullPolicy: {{ $image.pullPolicy }}
{{- end }}

{{/* What every pod has: no rights at the cluster, none at the machine. */}}
{{- define "ango.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "ango.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: data, mountPath: /data}
  - {name: tmp, mountPath: /tmp}
{{- end }}

{{/* Where a pod may run. Takes values with nodeSelector, tolerations and topologyKeys, and what ango.selector takes. */}}
{{- define "ango.placement" -}}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .values.topologyKeys }}
topologySpreadConstraints:
  {{- range .values.topologyKeys }}
  - topologyKey: {{ . }}
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "ango.selector" $ | nindent 8 }}
  {{- end }}
{{- end }}
{{- end }}

{{/* The start of a worker may compile kernels and try a driver, so a pod has five minutes before it counts as dead. */}}
{{- define "ango.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: metrics}
  periodSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /livez, port: metrics}
  periodSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 5
  failureThreshold: 2
{{- end }}

{{/* Settings from a Secret. Takes the Secret's name and the names of its keys. */}}
{{- define "ango.secretSettings" -}}
{{- range .names }}
- name: {{ . }}
  valueFrom: {secretKeyRef: {name: {{ $.secret }}, key: {{ . }}}}
{{- end }}
{{- end }}

{{/* Settings as they are. */}}
{{- define "ango.settings" -}}
{{- range $name, $value := . }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}

{{/* Settings of every member of the fleet. Takes the root and the name of the role's Secret. */}}
{{- define "ango.member" -}}
{{- $values := .root.Values -}}
- {name: ANGO_DATA_DIR, value: /data}
- {name: ANGO_METRICS_LISTEN, value: "0.0.0.0:9464"}
- {name: ANGO_FLEET_NAME, value: {{ $values.fleetName | quote }}}
- {name: ANGO_OBJECTS_URL, value: {{ $values.objects.url | quote }}}
{{- with $values.objects.endpoint }}
- {name: ANGO_S3_ENDPOINT, value: {{ . | quote }}}
{{- end }}
- {name: ANGO_S3_REGION, value: {{ $values.objects.region | quote }}}
- {name: ANGO_LOG_FORMAT, value: json}
{{- $keys := ternary (list "ANGO_S3_ACCESS_KEY_ID" "ANGO_S3_SECRET_ACCESS_KEY") list $values.objects.accessKeys }}
{{- include "ango.secretSettings" (dict "secret" .secret "names" (concat (list "ANGO_NATS_URL") $keys)) }}
{{- end }}
