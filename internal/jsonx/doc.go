// Package jsonx reads the JSON that clients and mirror nodes send, and writes the JSON that clients get.
//
// # Reading
//
// The scanner checks a text and finds where its values end, in one pass, without decoding
// anything. Every Scan function takes the whole text and a position, and returns the position
// after what it has read, or -1 if the text is not JSON there:
//
//	end := jsonx.ScanObject(text, start, 0, func(key, value []byte) { … })
//
// A Value is a piece of the text. Its methods tell its type and read it: Text, Uint64, Bytes,
// Field, Elements and so on. Nothing is decoded that nobody asks for.
//
// # Writing
//
// Append writes a result behind what is there already. It writes json.RawMessage, Values, strings and
// hexutil.Bytes by itself, and leaves all else to encoding/json, without its HTML escapes.
//
// # Differences from encoding/json
//
// The scanner accepts the texts that encoding/json accepts, and reads the same values from
// them. FuzzSameAsEncodingJSON holds that. There are four differences:
//
//   - Nesting ends at MaxDepth, 512 levels; encoding/json goes down to 10,000.
//   - Bytes that are not UTF-8 stay in a string as they are; encoding/json puts U+FFFD in
//     their place. Whoever reads from clients checks UTF-8 first.
//   - Field wants a key exactly as it is spelt; encoding/json ignores case where it fills a
//     struct. Of equal keys both take the last.
//   - A number stays text until somebody asks for it. Uint64 takes no fraction and no
//     exponent, and Float is infinite where encoding/json reports an error.
//
// # Words
//
//	text      the bytes of a whole JSON document, or what a JSON string says
//	value     one JSON value in the text: from its first byte to its last
//	view      a slice of the text; it is valid as long as the text is
//	absent    not there at all, unlike null
//	given     there, and not null
package jsonx
