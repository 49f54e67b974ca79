// transport: http
// Where HTTP words things differently from WebSocket.
>> {"jsonrpc":"2.0",
<< {"error":{"code":-32700,"message":"[Request ID: test] Parse error"},"jsonrpc":"2.0","id":null}

>> "eth_chainId"
<< {"error":{"code":-32700,"message":"[Request ID: test] Parse error"},"jsonrpc":"2.0","id":null}

>> [{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}
<< {"error":{"code":-32700,"message":"[Request ID: test] Parse error"},"jsonrpc":"2.0","id":null}

>> {"jsonrpc":"2.0","id":1,"method":"eth_chainId"} {}
<< {"error":{"code":-32700,"message":"[Request ID: test] Parse error"},"jsonrpc":"2.0","id":null}

>> {"jsonrpc":"2.0","id":1,"method":"trace_block"}
<< {"error":{"code":-32601,"message":"[Request ID: test] Not yet implemented"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"debug_traceCall"}
<< {"error":{"code":-32601,"message":"[Request ID: test] Not yet implemented"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}
<< {"error":{"code":-32601,"message":"[Request ID: test] Method eth_subscribe not found"},"jsonrpc":"2.0","id":1}
