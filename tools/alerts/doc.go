// Package alerts checks the alert rules of docs with Prometheus's own parser and engine. It is a
// module of its own because Prometheus brings more than all of the product does.
//
// # Words
//
//	rule    an alert with its expression, in the files of docs
//	series  values over time that a rule is tried on
package alerts
