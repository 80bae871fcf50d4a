{{- /* Labels that select the pods of one component; called with (list $ "api"). */ -}}
{{- define "mnemolog.labels" -}}
app.kubernetes.io/name: mnemolog
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "mnemolog.image" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy | default "IfNotPresent" }}
{{- end }}

{{- define "mnemolog.confined" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{- define "mnemolog.settings" -}}
envFrom:
  - configMapRef: {name: {{ .Release.Name | quote }}}
  - secretRef: {name: {{ .Values.secret | quote }}}
{{- end }}

{{- define "mnemolog.mounts" -}}
volumeMounts:
  - {name: cache, mountPath: /var/cache/mnemolog}
  - {name: snapshots, mountPath: /var/lib/mnemolog/snapshots}
  - {name: tmp, mountPath: /tmp}
{{- end }}

{{- /* What the pods of both components have in common; called with (list $ "api"). No pod can get more rights than it
starts with, or write anywhere but to its volumes. */ -}}
{{- define "mnemolog.pod" -}}
{{- $ := index . 0 -}}
serviceAccountName: {{ $.Release.Name | quote }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 999
  runAsGroup: 999
  fsGroup: 999
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "mnemolog.labels" . | nindent 8 }}
volumes:
  - name: cache
    emptyDir: {sizeLimit: 8Gi}
  - name: snapshots
    persistentVolumeClaim:
      claimName: {{ $.Values.snapshots.existingClaim | default (printf "%s-snapshots" $.Release.Name) }}
  - name: tmp
    emptyDir: {sizeLimit: 1Gi}
{{- end }}

{{- /* A drained node stops one pod of a component at a time; called with (list $ "api"). */ -}}
{{- define "mnemolog.disruption" -}}
{{- $ := index . 0 -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $.Release.Name }}-{{ index . 1 }}
  labels:
    {{- include "mnemolog.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "mnemolog.labels" . | nindent 6 }}
{{- end }}
