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
		Name:   "demo_greet",
		Params: []rpc.Param{rpc.Required(rpc.Text())},
		Handler: func(_ context.Context, p *rpc.Params) (any, error) {
			return "hello " + p.Text(0), nil
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
	config.HTTP.APIs = []string{"demo"}
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
	for _, params := range []string{`["world"]`, `[5]`} {
		call := `{"jsonrpc":"2.0","id":1,"method":"demo_greet","params":` + params + `}`
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
	// {"result":"hello world","jsonrpc":"2.0","id":1}
	// {"error":{"code":-32602,"message":"invalid argument 0: Expected string type, value: 5"},"jsonrpc":"2.0","id":1}
	// <nil>
}
