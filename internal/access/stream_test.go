package access

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A reader whose key is revoked gets no further event.
func TestAStreamEndsWithItsKey(t *testing.T) {
	k := New(open(t), "", "")
	if _, _, err := k.Create(t.Context(), "", RoleAdmin, "me"); err != nil {
		t.Fatal(err)
	}
	key, token, err := k.Create(t.Context(), "", RoleRead, "reader")
	if err != nil {
		t.Fatal(err)
	}
	events := make(chan string)
	ended := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := k.Who(r)
		if err != nil {
			t.Error(err)
		}
		ended <- Stream(k.With(r, who), w, 0, func(ctx context.Context, after int64) (string, int64, error) {
			select {
			case text := <-events:
				return text, after + 1, nil
			case <-ctx.Done():
				return "", after, ctx.Err()
			}
		})
	}))
	t.Cleanup(server.Close)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token.Reveal())
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	events <- "data: before\n\n"
	for lines.Scan() && lines.Text() != "data: before" {
	}
	if err := k.Revoke(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	events <- "data: after\n\n"
	for lines.Scan() {
		if strings.Contains(lines.Text(), "after") {
			t.Error("an event came after the key was revoked")
		}
	}
	if err := <-ended; err != nil || lines.Err() != nil {
		t.Errorf("%v, %v", err, lines.Err())
	}
}
