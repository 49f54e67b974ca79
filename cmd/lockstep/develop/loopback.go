package develop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"lockstep/internal/clip"
	"lockstep/internal/eth"
)

// loopback calls methods of the relay at its own port, as any client does.
type loopback struct {
	url string
}

// Bounds of a call to ourselves.
const (
	loopbackTime   = time.Minute
	loopbackAnswer = 8 << 20
)

// call returns the result of a method. An error of the method is an *eth.Error as a client
// gets it.
func (l loopback) call(ctx context.Context, method string, params ...any) (json.RawMessage, error) {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	ctx, cancel := context.WithTimeout(ctx, loopbackTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := clip.ReadAll(response.Body, loopbackAnswer)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Code    int             `json:"code"`
			Message string          `json:"message"`
			Data    json.RawMessage `json:"data"`
		} `json:"error"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("%s: answer of status %d: %w", method, response.StatusCode, err)
	}
	if e := answer.Error; e != nil {
		failed := eth.ErrPassedOn(e.Code, e.Message, nil)
		if len(e.Data) > 0 {
			failed.Data = e.Data
		}
		return nil, failed
	}
	return answer.Result, nil
}
