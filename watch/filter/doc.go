// Package filter reads conditions on the arguments of an event, and says whether an event meets them:
//
//	amount >= 1000e18 && (to in [0x5FbD…0aa3, 0x7099…79C8] || from in treasury.txt) && !paused
//
// An expression is Parsed without knowing any event; Bind compiles it for the event of a signature, and says where in the text a name or a type does not fit.
//
//	e, err := filter.Parse(text, readFile)
//	f, err := e.Bind(signature)
//	if f.Match(values.Args) { … }
//	f.Topics() // what a node may be asked for
//
// # Language
//
//	a || b, a && b, !a, (a)      from loose to tight: ||, &&, !
//	== != < <= > >=              integers, of whatever width, are compared exactly
//	== !=                        addresses in any case, bytes, texts, booleans
//	name in [1, 2], name in file one of many values; a file has one in a line, or more between commas, and comments behind #
//	name                         of an argument that is a boolean
//	order.amount                 a member of a tuple
//	1000, 1_000, 1.5e18, 0xff    integers
//	"text", 0x…, true, false     other values
//
// An indexed text or list of bytes is in the log as its hash, and is compared by it.
package filter
