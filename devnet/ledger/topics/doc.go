// Package topics handles topics and the messages to them.
package topics
