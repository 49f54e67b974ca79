package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"lockstep/mirror/fetch"
)

// list is a list of the REST interface: where it starts, and what its member is called.
type list[T any] struct {
	label    string
	path     string
	member   string
	maxPages int
	exists   bool          // a list that the mirror node does not know is ErrNotFound
	about    func(*T) bool // what each item must be about; nil: nothing is asked for that an item tells
}

// items reads a list page by page while it is consumed. Items of one page are decoded together, so that no
// connection is held while the consumer works. A list that the mirror node does not know is empty, unless the
// list must exist. A page that another one links to must exist.
func (l list[T]) items(ctx context.Context, c *Client) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		path := l.path
		for range l.maxPages {
			page, err := l.page(ctx, c, path)
			if err != nil {
				if err = l.failure(path, err); err != nil {
					yield(nil, err)
				}
				return
			}
			for _, item := range page.items {
				if !yield(item, nil) {
					return
				}
			}
			if page.next == "" {
				return
			}
			if page.next == path {
				yield(nil, &Error{Status: StatusUnreadable, Message: "a page links to itself"})
				return
			}
			path = page.next
		}
		yield(nil, &PagesError{Limit: l.maxPages})
	}
}

// failure is the error when a page of the list cannot be read; nil if the list ends there.
func (l list[T]) failure(path string, err error) error {
	switch {
	case absent(err) != nil || path == l.path && l.exists:
		return err
	case path == l.path:
		return nil
	}
	return &Error{Status: http.StatusNotFound, Message: "a page that was linked to is not there"}
}

type page[T any] struct {
	member string // that has the items
	items  []*T
	next   string // path of the next page below /api/v1/; empty on the last one
}

// weight is about how many bytes the page holds; 0 if its items do not say.
func (p *page[T]) weight() (bytes int64) {
	for _, item := range p.items {
		w, ok := any(item).(interface{ weight() int64 })
		if !ok {
			return 0
		}
		bytes += w.weight()
	}
	return bytes
}

// page reads one page. Identical pages that are asked for at the same time are one
// request.
func (l list[T]) page(ctx context.Context, c *Client, path string) (*page[T], error) {
	return sharedWith(ctx, c, path, fetch.Request{Label: l.label, Path: path}, l.readPage)
}

func (l list[T]) readPage(text []byte, p *page[T]) error {
	p.member = l.member
	err := unmarshal(text, p)
	if err == nil && l.about != nil && slices.ContainsFunc(p.items, func(item *T) bool { return !l.about(item) }) {
		err = errOther
	}
	return err
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (p *page[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if open, err := d.ReadToken(); err != nil || open.Kind() != '{' {
		return cmp.Or(err, errNoPage)
	}
	whole := false
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		var next links
		switch name.String() {
		case p.member:
			whole = true
			err = json.UnmarshalDecode(d, &p.items)
		case "links":
			err = json.UnmarshalDecode(d, &next)
			p.next = next.next
		default:
			err = d.SkipValue()
		}
		if err != nil {
			return err
		}
	}
	p.items = slices.DeleteFunc(p.items, func(item *T) bool { return item == nil })
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	if !whole { // an object without the list does not say that the list is empty
		return errNoPage
	}
	return nil
}

var errNoPage = errors.New("want a page of a list")

// newest is the highest block that the page names.
func (p *page[T]) newest() (newest uint64) {
	for _, item := range p.items {
		newest = max(newest, newestIn(item))
	}
	return newest
}

// links is where the next page is. Whatever host a link names, only what follows the
// interface's prefix is used.
type links struct{ next string }

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (l *links) UnmarshalJSONFrom(d *jsontext.Decoder) (err error) {
	var v struct {
		Next string `json:"next"`
	}
	if err = json.UnmarshalDecode(d, &v); err != nil || v.Next == "" {
		return err
	}
	l.next, err = nextPath(v.Next)
	return err
}

func nextPath(link string) (string, error) {
	const longest = 8192
	u, err := url.Parse(link)
	if err != nil || len(link) > longest {
		return "", fmt.Errorf("link to the next page: not a usable URL")
	}
	_, path, ok := strings.Cut(u.EscapedPath(), fetch.APIPrefix)
	if !ok || path == "" || strings.Contains(path, "..") {
		return "", fmt.Errorf("link to the next page: not below %s", fetch.APIPrefix)
	}
	if u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	return path, nil
}

// collect reads a whole list.
func collect[T any](items iter.Seq2[*T, error]) ([]*T, error) {
	var all []*T
	for item, err := range items {
		if err != nil {
			return nil, err
		}
		all = append(all, item)
	}
	return all, nil
}

// query builds the part of a path after the question mark. Its values are numbers,
// hashes, addresses and timestamps and need no escaping.
type query struct{ strings.Builder }

func (q *query) add(name, value string) {
	if q.Len() == 0 {
		q.WriteByte('?')
	} else {
		q.WriteByte('&')
	}
	q.WriteString(name)
	q.WriteByte('=')
	q.WriteString(value)
}

func (q *query) page(c *Client, order Order) {
	q.add("limit", decimal(uint64(c.config.PageSize)))
	q.add("order", string(order))
}

// Order is the direction of a list by time.
type Order string

// The directions.
const (
	Ascending  Order = "asc"
	Descending Order = "desc"
)
