// transport: ws
// Where WebSocket words things differently from HTTP.
>> {"jsonrpc":"2.0",
<< {"error":{"code":-32600,"message":"[Request ID: test] Invalid request"},"jsonrpc":"2.0","id":null}

>> null
<< {"error":{"code":-32600,"message":"[Request ID: test] Invalid Request"},"jsonrpc":"2.0","id":null}

>> {"jsonrpc":"2.0","id":1,"method":"trace_block"}
<< {"error":{"code":-32601,"message":"[Request ID: test] Method trace_block not found"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}
<< {"error":{"code":-32601,"message":"[Request ID: test] Unsupported JSON-RPC method"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_unsubscribe"}
<< {"error":{"code":-32601,"message":"[Request ID: test] Unsupported JSON-RPC method"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":"é漢","method":"eth_chainId"}
<< {"result":"0x12a","jsonrpc":"2.0","id":"é漢"}

>> {"jsonrpc":"2.0","id":1,"method":"txpool_status","params":null}
<< {"result":{"a":"<b>"},"jsonrpc":"2.0","id":1}
