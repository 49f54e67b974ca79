// Package envx holds the types of settings whose text form in the environment is
// not that of a plain Go type: durations that may be written as bare
// milliseconds, and lists that may be written as JSON or with commas. They
// implement encoding.TextUnmarshaler, which environment loaders and JSON honour.
//
// # Words
//
//	bare  of a number: without a unit, so that it counts milliseconds
//	list  texts as a JSON array or with commas
package envx
