{{/* Names. */}}
{{- define "kwatt.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "kwatt.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "kwatt.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "kwatt.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* Of one component: (list $ "agent"). */}}
{{- define "kwatt.componentName" -}}
{{- printf "%s-%s" (include "kwatt.fullname" (index . 0)) (index . 1) }}
{{- end }}

{{/* Roles are not in a namespace, so two releases of one name must not meet. */}}
{{- define "kwatt.clusterName" -}}
{{- printf "%s-%s" (index . 0).Release.Namespace (include "kwatt.componentName" .) }}
{{- end }}

{{- define "kwatt.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kwatt.name" (index . 0) }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "kwatt.labels" -}}
{{- $root := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "kwatt.selectorLabels" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: kwatt
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "kwatt.metadata" -}}
name: {{ include "kwatt.componentName" . }}
namespace: {{ (index . 0).Release.Namespace }}
labels:
  {{- include "kwatt.labels" . | nindent 2 }}
{{- end }}

{{/* "repository:tag" or "repository@digest": (list values default-tag). */}}
{{- define "kwatt.imageOf" -}}
{{- $image := index . 0 -}}
{{- if $image.digest }}{{ $image.repository }}@{{ $image.digest }}{{ else }}{{ $image.repository }}:{{ default (index . 1) $image.tag }}{{ end }}
{{- end }}

{{- define "kwatt.image" -}}
image: {{ include "kwatt.imageOf" (list .Values.image .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- define "kwatt.serviceAccountName" -}}
{{- if (index . 0).Values.serviceAccount.create }}{{ include "kwatt.componentName" . }}{{ else }}default{{ end }}
{{- end }}

{{/* Metadata of the pods of a component: (list $ "agent" port config). port 0: no metrics. */}}
{{- define "kwatt.podMetadata" -}}
{{- $root := index . 0 -}}{{- $component := index . 1 -}}{{- $values := get $root.Values $component -}}
labels:
  {{- include "kwatt.selectorLabels" (list $root $component) | nindent 2 }}
  app.kubernetes.io/part-of: kwatt
  {{- range $source := list $root.Values.commonLabels $values.podLabels }}
  {{- with $source }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- end }}
annotations:
  {{- /* a new configuration is a new pod */}}
  checksum/config: {{ index . 3 | sha256sum }}
  {{- if and $root.Values.monitoring.annotations (index . 2) }}
  prometheus.io/scrape: "true"
  {{- if $root.Values.tls.enabled }}
  prometheus.io/scheme: https
  {{- end }}
  prometheus.io/port: {{ index . 2 | quote }}
  prometheus.io/path: /metrics
  {{- end }}
  {{- with $values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* Where the pods of a component may run: (list $ "agent"). */}}
{{- define "kwatt.placement" -}}
{{- $root := index . 0 -}}{{- $values := get $root.Values (index . 1) -}}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Replicas on different nodes: (list $ "extender" "preferred"), or "required". */}}
{{- define "kwatt.apart" -}}
podAntiAffinity:
  {{- if eq (index . 2) "required" }}
  requiredDuringSchedulingIgnoredDuringExecution:
  - topologyKey: kubernetes.io/hostname
    labelSelector:
      matchLabels:
        {{- include "kwatt.selectorLabels" . | nindent 8 }}
  {{- else }}
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 100
    podAffinityTerm:
      topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels:
          {{- include "kwatt.selectorLabels" . | nindent 10 }}
  {{- end }}
{{- end }}

{{/* What a program that needs nothing of its node runs as. */}}
{{- define "kwatt.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}
{{- define "kwatt.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Redis: address, user, Secret and key of a program's password: (list $ "agent"). */}}
{{- define "kwatt.redisUrl" -}}
{{- if .Values.redis.enabled -}}
redis://{{ include "kwatt.componentName" (list . "redis") }}.{{ .Release.Namespace }}.svc:6379
{{- else -}}
{{- $url := .Values.externalRedis.url }}
{{- $tls := .Values.externalRedis.tls }}
{{- if and (or $tls.caKey $tls.certKey $tls.keyKey $tls.serverName) (not (hasPrefix "rediss" $url)) }}
{{- fail "externalRedis.tls is of no use without TLS in externalRedis.url: rediss:// or rediss+sentinel://" }}
{{- end }}
{{- if and $tls.keyKey (not $tls.certKey) }}
{{- fail "externalRedis.tls.keyKey needs certKey" }}
{{- end }}
{{- if and (or .Values.externalRedis.sentinel.user .Values.externalRedis.sentinel.passwordKey) (not (contains "+sentinel://" $url)) }}
{{- fail "externalRedis.sentinel is of no use without sentinels in externalRedis.url: redis+sentinel:// or rediss+sentinel://" }}
{{- end }}
{{- required "externalRedis.url is needed with redis.enabled=false: redis://HOST[:PORT][/DB]" $url -}}
{{- end -}}
{{- end }}

{{- define "kwatt.redisUser" -}}
{{- $root := index . 0 -}}
{{- if $root.Values.redis.enabled }}{{ index . 1 }}{{ else }}{{ (get $root.Values.externalRedis (index . 1)).user }}{{ end }}
{{- end }}

{{- define "kwatt.redisSecret" -}}
{{- if .Values.redis.enabled }}{{ default (include "kwatt.componentName" (list . "redis")) .Values.redis.existingSecret }}{{ else }}{{ .Values.externalRedis.existingSecret }}{{ end }}
{{- end }}

{{- define "kwatt.redisPasswordKey" -}}
{{- $root := index . 0 -}}
{{- if $root.Values.redis.enabled }}{{ index . 1 }}-password{{ else }}{{ (get $root.Values.externalRedis (index . 1)).passwordKey }}{{ end }}
{{- end }}

{{/* Files of a program for Redis: name of the file, and the key it has in its Secret: (list $ "agent"). */}}
{{- define "kwatt.redisFiles" -}}
{{- $root := index . 0 -}}
{{- $external := $root.Values.externalRedis -}}
{{- with include "kwatt.redisPasswordKey" . }}
password: {{ . | quote }}
{{- end }}
{{- if not $root.Values.redis.enabled }}
{{- with $external.sentinel.passwordKey }}
sentinel-password: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- define "kwatt.redisTlsFiles" -}}
{{- if not .Values.redis.enabled }}
{{- with .Values.externalRedis.tls }}
{{- range $file, $key := dict "ca.crt" .caKey "tls.crt" .certKey "tls.key" .keyKey }}
{{- if $key }}
{{ $file }}: {{ $key | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "kwatt.redisEnv" -}}
{{- $root := index . 0 -}}
{{- $external := $root.Values.externalRedis -}}
- name: KWATT_REDIS
  value: {{ include "kwatt.redisUrl" $root | quote }}
{{- with include "kwatt.redisUser" . }}
- name: KWATT_REDIS_USER
  value: {{ . | quote }}
{{- end }}
{{- $files := merge (include "kwatt.redisFiles" . | fromYaml) (include "kwatt.redisTlsFiles" $root | fromYaml) }}
{{- range $variable, $file := dict "PASSWORD" "password" "SENTINEL_PASSWORD" "sentinel-password" "CA" "ca.crt" "CERT" "tls.crt" "KEY" "tls.key" }}
{{- if hasKey $files $file }}
- name: KWATT_REDIS_{{ $variable }}_FILE
  value: /etc/kwatt/redis/{{ $file }}
{{- end }}
{{- end }}
{{- if not $root.Values.redis.enabled }}
{{- with $external.tls.serverName }}
- name: KWATT_REDIS_SERVER_NAME
  value: {{ . | quote }}
{{- end }}
{{- with $external.sentinel.user }}
- name: KWATT_REDIS_SENTINEL_USER
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- define "kwatt.redisMount" -}}
{{- if or (include "kwatt.redisFiles" . | fromYaml) (include "kwatt.redisTlsFiles" (index . 0) | fromYaml) }}
- name: redis-access
  mountPath: /etc/kwatt/redis
  readOnly: true
{{- end }}
{{- end }}

{{- define "kwatt.redisVolume" -}}
{{- $root := index . 0 -}}
{{- $files := include "kwatt.redisFiles" . | fromYaml }}
{{- $tls := include "kwatt.redisTlsFiles" $root | fromYaml }}
{{- if or $files $tls }}
- name: redis-access
  projected:
    defaultMode: 0440
    sources:
    {{- if $files }}
    - secret:
        name: {{ required "externalRedis.existingSecret is needed where a passwordKey is given" (include "kwatt.redisSecret" $root) }}
        items:
        {{- range $file, $key := $files }}
        - {key: {{ $key | quote }}, path: {{ $file }}}
        {{- end }}
    {{- end }}
    {{- if $tls }}
    - secret:
        name: {{ required "externalRedis.tls.existingSecret is needed where one of its keys is given" $root.Values.externalRedis.tls.existingSecret }}
        items:
        {{- range $file, $key := $tls }}
        - {key: {{ $key | quote }}, path: {{ $file }}}
        {{- end }}
    {{- end }}
{{- end }}
{{- end }}

{{/* TLS of our programs. A Secret of (list $ "agent"); also "client", what asks them, and "authority". */}}
{{- define "kwatt.tlsSecret" -}}
{{- $own := printf "%s-tls" (include "kwatt.componentName" .) -}}
{{- $given := get (index . 0).Values.tls (index . 1) -}}
{{- default $own (get (default dict $given) "existingSecret") }}
{{- end }}
{{- define "kwatt.tlsMetadata" -}}
name: {{ include "kwatt.tlsSecret" . }}
namespace: {{ (index . 0).Release.Namespace }}
labels:
  {{- include "kwatt.labels" . | nindent 2 }}
{{- end }}
{{- define "kwatt.scheme" -}}
{{- ternary "https" "http" .Values.tls.enabled }}
{{- end }}
{{- define "kwatt.probeScheme" -}}
{{- if .Values.tls.enabled }}, scheme: HTTPS{{ end }}
{{- end }}
{{/* Name of a program in its certificate: (list $ "agent"). */}}
{{- define "kwatt.tlsName" -}}
{{ include "kwatt.componentName" . }}.{{ (index . 0).Release.Namespace }}.svc
{{- end }}
{{- define "kwatt.tlsEnv" -}}
{{- if .Values.tls.enabled }}
- {name: KWATT_TLS_CERT_FILE, value: /etc/kwatt/tls/tls.crt}
- {name: KWATT_TLS_PRIVATE_KEY_FILE, value: /etc/kwatt/tls/tls.key}
{{- if .Values.tls.clientCertificates }}
- {name: KWATT_CLIENT_CA_FILE, value: /etc/kwatt/tls/ca.crt}
{{- end }}
{{- end }}
{{- end }}
{{- define "kwatt.tlsMount" -}}
{{- if .Values.tls.enabled }}
# the whole folder: single files of it would not follow a change
- {name: tls, mountPath: /etc/kwatt/tls, readOnly: true}
{{- end }}
{{- end }}
{{- define "kwatt.tlsVolume" -}}
{{- if (index . 0).Values.tls.enabled }}
- name: tls
  secret: {secretName: {{ include "kwatt.tlsSecret" . }}, defaultMode: 0440}
{{- end }}
{{- end }}
{{/* How Prometheus asks a program: (list $ "agent"). */}}
{{- define "kwatt.tlsScrape" -}}
{{- if (index . 0).Values.tls.enabled }}
{{- $client := include "kwatt.tlsSecret" (list (index . 0) "client") }}
scheme: https
tlsConfig:
  serverName: {{ include "kwatt.tlsName" . }}
  ca: {secret: {name: {{ $client }}, key: ca.crt}}
  {{- if (index . 0).Values.tls.clientCertificates }}
  cert: {secret: {name: {{ $client }}, key: tls.crt}}
  keySecret: {name: {{ $client }}, key: tls.key}
  {{- end }}
{{- end }}
{{- end }}

{{/* What each user of the chart's Redis may do; `default` is off. Without passwords: a change of it is a new pod. */}}
{{- define "kwatt.redisRules" -}}
agent: "~kwatt:v1:nodes ~kwatt:v1:node:* ~kwatt:v1:pods:* ~kwatt:v1:feed:* ~kwatt:v1:attribution:* -@all +ping +select +zadd +zremrangebyscore +hset +hdel +hkeys +expire +xadd +get +set"
extender: "~kwatt:v1:nodes ~kwatt:v1:node:* ~kwatt:v1:feed:* ~kwatt:v1:profiles ~kwatt:v1:profile:* -@all +ping +select +zrevrange +zcard +hmget +xrange +xrevrange"
recommender: "%R~kwatt:v1:nodes %R~kwatt:v1:pods:* ~kwatt:v1:profiles ~kwatt:v1:profile:* -@all +ping +select +zrange +hlen +hkeys +hmget +hgetall +hset +expire +zadd +zremrangebyscore"
reader: "~kwatt:v1:nodes ~kwatt:v1:node:* ~kwatt:v1:pods:* ~kwatt:v1:advice:* ~kwatt:v1:feed:* -@all +ping +select +zrange +hmget +hvals +xrange"
probe: "-@all +ping"
{{- end }}

{{/* Version of the cluster as an image tag: "v1.33.1" also of "v1.33.1-eks-1234". */}}
{{- define "kwatt.kubeVersion" -}}
{{- regexFind "^v[0-9]+\\.[0-9]+\\.[0-9]+" .Capabilities.KubeVersion.Version }}
{{- end }}

{{/* Contradictions that a schema cannot see. */}}
{{- define "kwatt.check" -}}
{{- if and .Values.recommender.enabled (gt (int .Values.recommender.replicas) 1) (not .Values.recommender.leaderElection.enabled) }}
{{- fail "recommender.replicas above 1 needs recommender.leaderElection.enabled: they would write over each other's recommendations" }}
{{- end }}
{{- if and .Values.monitoring.podMonitor.enabled .Values.monitoring.serviceMonitor.enabled }}
{{- fail "monitoring: choose podMonitor or serviceMonitor: with both, every series would come twice" }}
{{- end }}
{{- $given := list }}
{{- $made := list }}
{{- range $component := list "agent" "extender" "recommender" "client" }}
{{- if or (eq $component "client") (get $.Values $component).enabled }}
{{- if (get $.Values.tls $component).existingSecret }}{{ $given = append $given $component }}{{ else }}{{ $made = append $made $component }}{{ end }}
{{- end }}
{{- end }}
{{- if and $.Values.tls.enabled $given $made }}
{{- fail (printf "tls: existingSecret is given for %s, and not for %s: give all, since one authority has to sign them, or none" (join ", " $given) (join ", " $made)) }}
{{- end }}
{{- if and (hasPrefix "/etc/kwatt/models/" (default "" .Values.agent.config.model)) (not .Values.agent.modelsConfigMap) }}
{{- fail "agent.config.model names a file of agent.modelsConfigMap, which is empty" }}
{{- end }}
{{- if and .Values.scheduler.enabled (not .Values.extender.enabled) }}
{{- fail "scheduler.enabled needs extender.enabled: it is there to ask the extender" }}
{{- end }}
{{- $tiers := eq (toString (dig "powerTiers" "enabled" false .Values.extender.config)) "true" }}
{{- if and $tiers (ne (toString .Values.extender.config.watchNodes) "true") }}
{{- fail "extender.config.powerTiers.enabled needs extender.config.watchNodes: the API server says which labels there are" }}
{{- end }}
{{- if and .Values.scheduler.tiers (not $tiers) }}
{{- fail "scheduler.tiers needs extender.config.powerTiers.enabled: it goes by the labels that the extender writes" }}
{{- end }}
{{- if and .Values.scheduler.tiers .Values.scheduler.filter }}
{{- fail "scheduler.tiers asks no extender, so scheduler.filter is of no use" }}
{{- end }}
{{- with .Values.extender.zones }}
{{- if and .values .configMap }}
{{- fail "extender.zones: give values or configMap, not both" }}
{{- end }}
{{- if and .values (not (and .unit .source)) }}
{{- fail "extender.zones.values needs unit and source: nobody knows what the numbers mean without them" }}
{{- end }}
{{- if and (or .values .configMap) (ne (toString $.Values.extender.config.watchNodes) "true") }}
{{- fail "extender.zones needs extender.config.watchNodes: the API server says which zone a node is in" }}
{{- end }}
{{- end }}
{{- end }}

{{/* Configuration of the second scheduler. */}}
{{- define "kwatt.schedulerConfig" -}}
# As `kwatt scheduler-config` prints it, with the reasons for each choice.
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: true
  resourceName: {{ include "kwatt.componentName" (list . "scheduler") }}
  resourceNamespace: {{ .Release.Namespace }}
{{- if .Values.scheduler.tiers }}
profiles:
- schedulerName: {{ .Values.scheduler.schedulerName }}
  plugins:
    score:
      disabled:
      - name: NodeResourcesBalancedAllocation
      - name: ImageLocality
      enabled:
      - name: NodeAffinity
        weight: {{ .Values.scheduler.weight }}
  pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 88
          preference:
            matchExpressions:
            - {key: kwatt.io/power-tier, operator: In, values: ["0", "1"]}
        - weight: 44
          preference:
            matchExpressions:
            - {key: kwatt.io/power-tier, operator: NotIn, values: ["0", "1", "6", "7", "8", "9"]}
        - weight: 22
          preference:
            matchExpressions:
            - {key: kwatt.io/power-tier, operator: In, values: ["2", "3", "6", "7"]}
        - weight: 11
          preference:
            matchExpressions:
            - {key: kwatt.io/power-tier, operator: In, values: ["0", "2", "4", "6", "8"]}
{{- else }}
extenders:
- urlPrefix: {{ include "kwatt.scheme" . }}://{{ include "kwatt.componentName" (list . "extender") }}.{{ .Release.Namespace }}.svc:{{ .Values.extender.service.port }}
  {{- if .Values.tls.enabled }}
  enableHTTPS: true
  tlsConfig:
    serverName: {{ include "kwatt.tlsName" (list . "extender") }}
    caFile: /etc/kwatt/tls/ca.crt
    {{- if .Values.tls.clientCertificates }}
    certFile: /etc/kwatt/tls/tls.crt
    keyFile: /etc/kwatt/tls/tls.key
    {{- end }}
  {{- end }}
  {{- if .Values.scheduler.filter }}
  filterVerb: filter
  preemptVerb: preempt
  {{- end }}
  prioritizeVerb: prioritize
  weight: {{ .Values.scheduler.weight }}
  nodeCacheCapable: true
  httpTimeout: {{ .Values.scheduler.httpTimeout }}
  ignorable: true
{{- if .Values.scheduler.filter }}
percentageOfNodesToScore: 100
{{- end }}
profiles:
- schedulerName: {{ .Values.scheduler.schedulerName }}
{{- end }}
{{- end }}

{{/* Where pods may send to. */}}
{{- define "kwatt.egressDns" -}}
- ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
{{- end }}
{{- define "kwatt.egressRedis" -}}
{{- if .Values.redis.enabled -}}
- to:
  - podSelector:
      matchLabels:
        {{- include "kwatt.selectorLabels" (list . "redis") | nindent 8 }}
  ports: [{port: 6379, protocol: TCP}]
{{- else -}}
- {} # an external Redis is wherever externalRedis.url says
{{- end }}
{{- end }}
{{- define "kwatt.egressApiServer" -}}
- ports:
  {{- range .Values.networkPolicy.apiServerPorts }}
  - {port: {{ . }}, protocol: TCP}
  {{- end }}
{{- end }}
