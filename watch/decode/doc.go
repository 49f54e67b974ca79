// Package decode reads event signatures as people write them, and turns the logs of a chain
// into named arguments.
//
//	signature, err := decode.Parse("Released(address indexed to, uint256 amount)")
//	args, err := signature.Decode(topics, data)
//
// A signature may leave out names and the word "indexed". An argument without a name is called
// arg0, arg1 and so on, by its position. Where the marks are missing or do not fit the
// log, the number of topics tells how many arguments are indexed, and the data tells which: those
// that come first, if the data then decodes to the last byte, else the first choice that does.
//
// # Values
//
// Addresses are in checksum form. Integers of up to 48 bits are JSON numbers, wider ones decimal
// strings, since JSON's readers keep 53 bits. Bytes are 0x-hexadecimal. A tuple is an object
// whose members without names are arg0, arg1 and so on. An indexed argument of a dynamic type is the 32-byte hash that stands in the log.
//
// # Words
//
//	signature  an event's name and its arguments' types
//	topic      one of the up to four 32-byte words of a log; the first is the hash of the signature
//	selector   that hash
package decode
