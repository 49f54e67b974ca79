// Package config is the one struct of all settings and the one place that reads
// them. Each setting is declared beside the code that uses it, as a struct field
// with its environment name, its default and a comment; Config only embeds those
// structs. docs/CONFIG.md is made from the same tags and comments, and a test fails
// when it is stale (`make generate` renews it).
//
// Settings come from the environment and from the .env file in the working
// directory; the environment wins. Load reports every
// mistake at once, each with the name of its setting. Secrets have the type
// secret.String, which nothing prints.
//
// The result is immutable and passed by value; there is no global.
//
// # Words
//
//	setting  one environment variable: a struct field with its name, default and comment
//	twin     NAME_FILE, which names the file that has the secret setting NAME
package config
