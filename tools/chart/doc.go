// Package chart checks the Helm chart in packaging/helm/lockstep: Helm's own engine renders it as helm
// template does, with the values of the chart, with those that hiero-json-rpc-relay's chart has, and with everything turned on. kubeconform holds the result
// against the schemas of Kubernetes, which are made from its OpenAPI document, and the relay itself reads its settings. The
// loader of docker compose reads the compose file beside it.
//
// It is a module of its own, so that neither Helm nor Kubernetes nor compose is a dependency of Lockstep.
//
// # Words
//
//	values    the settings of a chart
//	rendered  what the chart makes of values: objects of Kubernetes
//	peer      the chart of hiero-json-rpc-relay
package chart
