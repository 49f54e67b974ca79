package ledger

import "time"

// Moment is a time in microseconds since 1970; 0 is never. As text it is RFC 3339.
type Moment int64

// MarshalText implements encoding.TextMarshaler.
func (m Moment) MarshalText() ([]byte, error) {
	return time.UnixMicro(int64(m)).UTC().AppendFormat(nil, time.RFC3339Nano), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Moment) UnmarshalText(text []byte) error {
	at, err := time.Parse(time.RFC3339Nano, string(text))
	*m = Moment(at.UnixMicro())
	return err
}
