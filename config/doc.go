// Package config is the one struct of all settings and the one place that reads
// them. Each setting is declared beside the code that uses it, as a struct field
// with its environment name, its default and a comment; Config only embeds those
// structs. docs/CONFIG.md is made from the same tags and comments, and a test fails
// when it is stale (`make generate` renews it).
//
// Settings come from the environment and from the nearest .env file, looked for
// from the working directory upwards; the environment wins. Load reports every
// mistake at once, each with the name of its setting. Secrets have the type
// secret.String, which nothing prints.
//
// The result is immutable and passed by value; there is no global.
package config
