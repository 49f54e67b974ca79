package rpc_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"lockstep/rpc"
)

// A server with one method, on a port of the system's choice.
func Example() {
	table, err := rpc.NewRegistry(rpc.Method{
		Name:   "eth_getBalance",
		Params: []rpc.Param{rpc.Required(rpc.Address()), rpc.Optional(rpc.BlockParams())},
		Handler: func(_ context.Context, p *rpc.Params) (any, error) {
			return "balance of " + p.Address(0).Hex(), nil
		},
	})
	if err != nil {
		panic(err)
	}
	config, err := env.ParseAs[rpc.Config]()
	if err != nil {
		panic(err)
	}
	config.Profile = rpc.ProfileEthereum
	dispatcher, err := rpc.NewDispatcher(config, table, rpc.Options{
		Logger: slog.New(slog.DiscardHandler), Metrics: rpc.NewMetrics(),
	})
	if err != nil {
		panic(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- rpc.NewHTTPServer(dispatcher, rpc.HTTPOptions{}).Run(ctx, listener) }()

	client := http.Client{Timeout: time.Minute}
	for _, params := range []string{`["0x00000000000000000000000000000000000004d2"]`, `["0x4d2"]`} {
		call := `{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":` + params + `}`
		response, err := client.Post("http://"+listener.Addr().String(), "application/json", strings.NewReader(call))
		if err != nil {
			panic(err)
		}
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			panic(err)
		}
		response.Body.Close()
		fmt.Println(string(answer))
	}
	client.CloseIdleConnections()
	stop()
	fmt.Println(<-stopped)

	// Output:
	// {"result":"balance of 0x00000000000000000000000000000000000004d2","jsonrpc":"2.0","id":1}
	// {"error":{"code":-32602,"message":"invalid argument 0: Expected 0x prefixed string representing the address (20 bytes), value: 0x4d2"},"jsonrpc":"2.0","id":1}
	// <nil>
}
