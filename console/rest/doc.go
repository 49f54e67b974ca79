// Package rest is what the listeners of the transaction manager and of the watchers have in common: who gets in, REST with an OpenAPI 3.1
// document that is made from the operations (GET /openapi.json, /openapi.yaml), streams of server-sent events, probes, /metrics, and the page.
//
// Errors are application/problem+json (RFC 9457), each with a member "code" that programs branch on. What an error of its own means
// a listener says with a table of Known ones.
//
// # Words
//
//	problem  an error as callers get it: application/problem+json, with a code
package rest
