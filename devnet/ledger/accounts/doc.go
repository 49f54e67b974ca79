// Package accounts handles what makes, changes and deletes accounts, and what they allow others to spend.
package accounts
