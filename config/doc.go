// Package config reads all settings, and nothing else does. Config has those of the relay (Load), Manager those of
// the transaction manager (LoadManager), Watchers those of the watchers (LoadWatchers). Each setting is
// declared beside the code that uses it, as a struct field with its environment name, its default and a comment; the
// three structs have a field for each of those. docs/CONFIG.md is made from the same tags and comments, and a test
// fails when it is stale (`make generate` renews it).
//
// To add a setting: a field with the tags env and envDefault and a comment, which becomes its row in docs/CONFIG.md; the tags min and max
// if it is a number (envx.Check), any other check in the struct's Validate (in lock and mirror: Check); the tag reload:"true" if it may change while the process runs. app/wire.go hands each struct to its constructor.
// A new struct also needs a field, and a line of Validate, in Config, Manager or Watchers.
//
// Settings come from the environment and from the .env file in the working
// directory, or from the file that LOCKSTEP_ENV_FILE names; the environment wins. Load reports every
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
