// Package decode reads event signatures as people write them, and turns the logs of a chain
// into named arguments.
//
//	signature, err := decode.Parse("Released(address indexed to, uint256 amount)")
//	args, err := signature.Decode(topics, data)
//
// A signature may leave out names and the word "indexed". An argument without a name is called
// arg0, arg1 and so on, by its position. Where the marks are missing or do not fit the
// log, the number of topics tells how many arguments are indexed. Which ones is settled if there is one way to choose them, if the data
// decode to the last byte in one way only, or if the addresses of the log leave one: a number of less than 2⁹⁶ is no address. Otherwise the
// log is not decoded (ErrAmbiguous), since two arguments could change places.
//
// # Values
//
// Addresses are in checksum form. Integers of up to 48 bits are JSON numbers, wider ones decimal
// strings, since JSON's readers keep 53 bits. A text that is not UTF-8 has U+FFFD in the place of what is none, and its bytes beside it (Values.Hex). Bytes are 0x-hexadecimal. A tuple is an object
// whose members without names are arg0, arg1 and so on. An indexed argument of a dynamic type is the 32-byte hash that stands in the log.
//
// # What strangers can do
//
// Anybody can write a log, and an offset in it may lead anywhere: a list of a thousand offsets to one list of a thousand offsets says a
// million things in 64 kB. So what is read is bounded by twice the size of the data (ErrTooMuch), types nest no deeper than 16, and a
// signature has no more than 4 kB. Nothing is made of types by reflection, which would keep each of them for ever.
//
// # Words
//
//	signature  an event's name and its arguments' types
//	topic      one of the up to four 32-byte words of a log; the first is the hash of the signature
//	selector   that hash
package decode
