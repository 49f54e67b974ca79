package mirrorrest_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"lockstep/devnet/ledger"
	"lockstep/devnet/mirrorrest"
)

func ExampleNew() {
	network, err := ledger.New(ledger.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	api := mirrorrest.New(mirrorrest.Config{View: network.View, Log: slog.Default()})

	answer := httptest.NewRecorder()
	api.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/api/v1/contracts/0.0.1002", nil))
	fmt.Println(answer.Code, strings.TrimSpace(answer.Body.String()))

	answer = httptest.NewRecorder()
	api.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/api/v1/network/fees?timestamp=nine", nil))
	fmt.Println(answer.Code, strings.TrimSpace(answer.Body.String()))
	// Output:
	// 404 {"_status":{"messages":[{"message":"Not found"}]}}
	// 400 {"_status":{"messages":[{"message":"Invalid parameter: timestamp"}]}}
}
