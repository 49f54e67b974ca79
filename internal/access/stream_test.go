package access

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lockstep/internal/must"
)

// A reader whose key is revoked gets no further event.
func TestAStreamEndsWithItsKey(t *testing.T) {
	k := New(open(t), "", "")
	if _, _, err := k.Create(t.Context(), "", RoleAdmin, "me"); err != nil {
		t.Fatal(err)
	}
	key, token := must.Get2(k.Create(t.Context(), "", RoleRead, "reader"))(t)
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
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil))(t)
	request.Header.Set("Authorization", "Bearer "+token.Reveal())
	response := must.Get(http.DefaultClient.Do(request))(t)
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	events <- "data: before\n\n"
	for lines.Scan() && lines.Text() != "data: before" {
	}
	must.Do(t, k.Revoke(t.Context(), key.ID))
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
