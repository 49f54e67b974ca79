// Package files handles files.
package files
