// Package limit bounds what clients may cost the operator: money, and calls.
package limit
