// Package manifests pins what tests check the manifests of docs/gateways with: egctl, and the modules with the
// definitions of Envoy Gateway, the Gateway API and Istio. Its own test is about what needs Istio's types.
package manifests
