// Package ui looks at the console's page with a real browser, as people do: each view, by
// mouse and by keys, light and dark, and with a checker of accessibility.
package ui
