{{- define "posthaste.labels" -}}
app.kubernetes.io/name: posthaste
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "posthaste.pod" -}}
metadata:
  labels: {{- include "posthaste.labels" . | nindent 4 }}
  annotations:
    checksum/settings: {{ toYaml .Values.settings | sha256sum }}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 40
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
      {{- if or $memory .Values.database.existingSecret .Values.auth.existingSecret }}
      env:
        {{- if $memory }}
        - name: GOMEMLIMIT
          valueFrom: {resourceFieldRef: {resource: limits.memory}}
        {{- end }}
        {{- if .Values.database.existingSecret }}
        - name: POSTHASTE_DATABASE_URL
          valueFrom: {secretKeyRef: {name: {{ .Values.database.existingSecret | quote }}, key: database-url}}
        {{- end }}
        {{- if .Values.auth.existingSecret }}
        - name: POSTHASTE_TOKEN
          valueFrom: {secretKeyRef: {name: {{ .Values.auth.existingSecret | quote }}, key: token}}
        {{- end }}
      {{- end }}
      ports:
        - {name: http, containerPort: 8080}
      livenessProbe:
        httpGet: {path: /healthz, port: http}
      readinessProbe:
        httpGet: {path: /readyz, port: http}
        periodSeconds: 5
      startupProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 2
        failureThreshold: 60
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
  volumes:
    - name: settings
      configMap: {name: {{ .Release.Name }}-posthaste}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
