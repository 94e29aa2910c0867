// The module whose deploy/ folder holds the CRDs of the Vertical Pod Autoscaler. Only fetched, never compiled.
module kwatt.io/e2e/tools/vpa

go 1.26.0

require k8s.io/autoscaler/vertical-pod-autoscaler v1.7.1
