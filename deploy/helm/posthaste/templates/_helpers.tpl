{{- define "posthaste.labels" -}}
app.kubernetes.io/name: posthaste
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Nine tenths, in bytes, of a quantity of memory as Kubernetes writes it. */}}
{{- define "posthaste.memoryLimit" -}}
{{- $quantity := kindIs "float64" . | ternary (printf "%.0f" (float64 .)) (toString .) }}
{{- $number := regexFind "^[0-9]+([.][0-9]+)?([eE][0-9]+)?" $quantity }}
{{- $factor := get (dict
  "" "1" "m" "0.001" "k" "1e3" "M" "1e6" "G" "1e9" "T" "1e12"
  "Ki" "1024" "Mi" "1048576" "Gi" "1073741824" "Ti" "1099511627776") (trimPrefix $number $quantity) }}
{{- if or (not $number) (not $factor) }}
{{- fail (printf "resources.limits.memory %q: give a number of bytes, or one with Ki, Mi, Gi, Ti, k, M, G or T, such as 1Gi" $quantity) }}
{{- end }}
{{- mulf (float64 $number) (float64 $factor) 0.9 | floor | int64 }}
{{- end }}

{{- define "posthaste.pod" -}}
metadata:
  labels: {{- include "posthaste.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/settings: {{ toYaml .Values.settings | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  automountServiceAccountToken: false
  {{- with .Values.serviceAccountName }}
  serviceAccountName: {{ . | quote }}
  {{- end }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: posthaste
      image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - serve
        - --config=/etc/posthaste/settings.yaml
        {{- if not .Values.database.existingSecret }}
        - --data=/data/store
        {{- end }}
      {{- $memory := (.Values.resources.limits).memory }}
      {{- with .Values.envFrom }}
      envFrom: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if or $memory .Values.database.existingSecret .Values.auth.existingSecret .Values.extraEnv }}
      env:
        {{- if $memory }}
        - name: GOMEMLIMIT
          value: {{ include "posthaste.memoryLimit" $memory | quote }}
        {{- end }}
        {{- if .Values.database.existingSecret }}
        - name: POSTHASTE_DATABASE_URL
          valueFrom: {secretKeyRef: {name: {{ .Values.database.existingSecret | quote }}, key: database-url}}
        {{- end }}
        {{- if .Values.auth.existingSecret }}
        - name: POSTHASTE_TOKEN
          valueFrom: {secretKeyRef: {name: {{ .Values.auth.existingSecret | quote }}, key: token}}
        {{- end }}
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
      ports:
        - {name: http, containerPort: 8080}
      {{- range $probe := list "livenessProbe" "readinessProbe" "startupProbe" }}
      {{ $probe }}: {{- toYaml (get $.Values $probe) | nindent 8 }}
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      resources: {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        - {name: settings, mountPath: /etc/posthaste, readOnly: true}
        {{- if not .Values.database.existingSecret }}
        - {name: data, mountPath: /data}
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: settings
      configMap: {name: {{ .Release.Name }}-posthaste}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if .Values.topologySpreadConstraints }}
  topologySpreadConstraints: {{- toYaml .Values.topologySpreadConstraints | nindent 4 }}
  {{- else if .Values.database.existingSecret }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{- include "posthaste.labels" . | nindent 10 }}
  {{- end }}
{{- end }}
