package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/ethereum/go-ethereum/common"
)

// consensusPath is where a development network publishes its order.
const consensusPath = "/devnet/consensus"

// maxLogPage bounds one page of the log; maxLogPages the pages of one reading.
const (
	maxLogPage  = 256 << 20
	maxLogPages = 10_000
)

// logEntry is one transaction as consensus saw it.
type logEntry struct {
	Sequence int64       `json:"sequence"` // place in the log
	Hash     common.Hash `json:"hash"`
	Status   string      `json:"status"`
}

// consensusLog follows the log of a network from a remembered place.
type consensusLog struct {
	url  *url.URL
	http *http.Client
	next int64 // the place behind what was read
}

func newConsensusLog(raw string) (*consensusLog, error) {
	u, err := parseURL(raw, "http", "https")
	if err != nil {
		return nil, fmt.Errorf("consensus log: %w", err)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = consensusPath
	}
	return &consensusLog{url: u, http: &http.Client{Timeout: clientTimeout, CheckRedirect: noRedirect}}, nil
}

// follow hands the entries behind the place reached to f, oldest first, until it has
// read them all. It tells whether some were dropped before they were read.
func (l *consensusLog) follow(ctx context.Context, f func(logEntry)) (gap bool, err error) {
	for range maxLogPages {
		entries, err := l.page(ctx)
		if err != nil {
			return gap, fmt.Errorf("consensus log: %w", err)
		}
		if len(entries) == 0 {
			return gap, nil
		}
		for _, e := range entries {
			gap = gap || e.Sequence > l.next
			l.next = e.Sequence + 1
			f(e)
		}
	}
	return gap, errors.New("consensus log: it grows faster than it can be read")
}

// page reads one page, {"entries": […]}.
func (l *consensusLog) page(ctx context.Context) ([]logEntry, error) {
	u := *l.url
	query := u.Query()
	query.Set("since", strconv.FormatInt(l.next, 10))
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, errors.New("not a URL")
	}
	resp, err := l.http.Do(req)
	if err != nil {
		return nil, transportError{err}
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, statusError(resp.StatusCode)
	}
	var page struct {
		Entries *[]logEntry `json:"entries"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxLogPage)).Decode(&page); err != nil || page.Entries == nil {
		return nil, errors.New("the answer is not a page of entries")
	}
	return *page.Entries, nil
}
