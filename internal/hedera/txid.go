package hedera

import (
	"fmt"
	"strconv"
	"strings"
)

// TransactionID identifies a HAPI transaction: who pays and the valid start that
// the payer chose. Two transactions with the same id are duplicates to the network.
type TransactionID struct {
	Payer      ID
	ValidStart Timestamp
	Scheduled  bool
	Nonce      int32 // 0 for what a client submits; children count from 1
}

// IsZero tells whether the id is unset.
func (id TransactionID) IsZero() bool { return id == TransactionID{} }

// String returns the SDK form payer@seconds.nanos, with ?scheduled and /nonce
// where they apply.
func (id TransactionID) String() string {
	s := id.Payer.String() + "@" + id.ValidStart.String()
	if id.Scheduled {
		s += "?scheduled"
	}
	if id.Nonce != 0 {
		s += "/" + strconv.FormatInt(int64(id.Nonce), 10)
	}
	return s
}

// Mirror returns the form of mirror node paths: payer-seconds-nanos.
func (id TransactionID) Mirror() string {
	return id.Payer.String() + "-" + strconv.FormatInt(id.ValidStart.Seconds, 10) + "-" + nineDigits(id.ValidStart.Nanos)
}

// ParseTransactionID reads either form, without the ?scheduled and /nonce suffixes.
func ParseTransactionID(text string) (TransactionID, error) {
	malformed := fmt.Errorf("transaction id %q: want payer@seconds.nanos or payer-seconds-nanos", text)
	payer, start, ok := strings.Cut(text, "@")
	if !ok {
		if payer, start, ok = strings.Cut(text, "-"); !ok {
			return TransactionID{}, malformed
		}
		// The nanos of this form are a number, not a fraction: pad on the left.
		seconds, nanos, ok := strings.Cut(start, "-")
		if !ok || nanos == "" || len(nanos) > 9 {
			return TransactionID{}, malformed
		}
		start = seconds + "." + "000000000"[len(nanos):] + nanos
	}
	account, err := ParseID(payer)
	if err != nil {
		return TransactionID{}, malformed
	}
	valid, err := ParseTimestamp(start)
	if err != nil {
		return TransactionID{}, malformed
	}
	return TransactionID{Payer: account, ValidStart: valid}, nil
}
