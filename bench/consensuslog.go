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

// errLogGap means that entries were dropped before they were read.
var errLogGap = errors.New("the consensus log dropped entries before they were read")

// logEntry is one transaction as consensus saw it.
type logEntry struct {
	Sequence *int64      `json:"sequence"` // place in the log, if it tells
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
	return &consensusLog{url: u, http: &http.Client{
		Timeout: clientTimeout,
		// A redirect could lead to a host that nobody configured.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// follow hands the entries behind the place reached to f, oldest first, until it has
// read them all.
func (l *consensusLog) follow(ctx context.Context, f func(logEntry)) error {
	for range maxLogPages {
		n, err := l.page(ctx, f)
		if err != nil {
			return fmt.Errorf("consensus log: %w", err)
		}
		if n == 0 {
			return nil
		}
	}
	return errors.New("consensus log: it grows faster than it can be read")
}

// skip moves to the end of the log. Entries dropped before now are none of our concern.
func (l *consensusLog) skip(ctx context.Context) error {
	err := l.follow(ctx, func(logEntry) {})
	for errors.Is(err, errLogGap) {
		err = l.follow(ctx, func(logEntry) {})
	}
	return err
}

// page reads one page, {"entries": […]}, and returns how many entries it had.
func (l *consensusLog) page(ctx context.Context, f func(logEntry)) (n int, err error) {
	u := *l.url
	query := u.Query()
	query.Set("since", strconv.FormatInt(l.next, 10))
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return 0, errors.New("not a URL")
	}
	resp, err := l.http.Do(req)
	if err != nil {
		return 0, transportError{err}
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return 0, statusError(resp.StatusCode)
	}
	var page struct {
		Entries *[]logEntry `json:"entries"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxLogPage)).Decode(&page); err != nil || page.Entries == nil {
		return 0, errors.New("the answer is not a page of entries")
	}
	gap := false
	for _, e := range *page.Entries {
		at := l.next
		if e.Sequence != nil {
			at = *e.Sequence
		}
		if at < l.next {
			continue // a server that counts the place itself as read
		}
		gap = gap || at > l.next
		l.next = at + 1
		n++
		f(e)
	}
	if gap {
		return n, errLogGap
	}
	return n, nil
}
