// Package treetest holds what is true of the tree as a whole and of no package alone: which package
// imports which, that no value gets into the text of a query, and that what operators read names
// settings and metrics that exist. The generated files are compared where they are made ("make
// verify"), and alert rules and dashboards with Prometheus's own parser ("make alerts").
package treetest
