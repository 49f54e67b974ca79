// Package clip cuts other people's words to what there is room for: a node may say a megabyte.
package clip

import "strings"

// Text is the text if it has at most so many bytes, or else its beginning, cut between two characters, and an ellipsis.
func Text(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
