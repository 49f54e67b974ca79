// Calls, ids and the ways in which a body can fail to be a call.
>> {"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]}
<< {"result":"0x12a","jsonrpc":"2.0","id":1}

>>   { "id" : "a\u00e9b" , "method" : "eth_chainId", "jsonrpc" : "2.0" , "extra" : [ { } ] }  
<< {"result":"0x12a","jsonrpc":"2.0","id":"a\u00e9b"}

>> {"jsonrpc":"2.0","id":null,"method":"eth_chainId"}
<< {"result":"0x12a","jsonrpc":"2.0","id":null}

>> {"jsonrpc":"2.0","id":0,"method":"eth_nope"}
<< {"error":{"code":-32601,"message":"[Request ID: test] Method eth_nope not found"},"jsonrpc":"2.0","id":0}

>> {"jsonrpc":"2.0","id":"","method":"eth_nope"}
<< {"error":{"code":-32601,"message":"[Request ID: test] Method eth_nope not found"},"jsonrpc":"2.0","id":""}

>> {"jsonrpc":"2.0","id":12345678901234567890123,"method":"eth_chainId"}
<< {"result":"0x12a","jsonrpc":"2.0","id":12345678901234567890123}

// The last of equal keys wins, keys may be escaped, names are case-sensitive.
>> {"jsonrpc":"2.0","id":1,"i\u0064":2,"method":"eth_nope","method":"eth\u005fchainId"}
<< {"result":"0x12a","jsonrpc":"2.0","id":2}

>> {"jsonrpc":"2.0","id":1,"Method":"eth_chainId"}
<< {"error":{"code":-32600,"message":"[Request ID: test] Invalid Request"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"ETH_chainId"}
<< {"error":{"code":-32601,"message":"[Request ID: test] Method ETH_chainId not found"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","method":"eth_chainId"}
<< {"error":{"code":-32600,"message":"[Request ID: test] Invalid Request"},"jsonrpc":"2.0","id":null}

>> {"jsonrpc":"2.0","id":true,"method":"eth_chainId"}
<< {"error":{"code":-32600,"message":"[Request ID: test] Invalid Request"},"jsonrpc":"2.0","id":null}

>> {"jsonrpc":"2.0","id":{"a":1},"method":"eth_chainId"}
<< {"error":{"code":-32600,"message":"[Request ID: test] Invalid Request"},"jsonrpc":"2.0","id":null}

>> {"jsonrpc":"2.0","id":[1],"method":"eth_chainId"}
<< {"error":{"code":-32600,"message":"[Request ID: test] Invalid Request"},"jsonrpc":"2.0","id":null}

>> {"jsonrpc":"1.0","id":1,"method":"eth_chainId"}
<< {"error":{"code":-32600,"message":"[Request ID: test] Invalid Request"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":2.0,"id":1,"method":"eth_chainId"}
<< {"error":{"code":-32600,"message":"[Request ID: test] Invalid Request"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":7}
<< {"error":{"code":-32600,"message":"[Request ID: test] Invalid Request"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"result":"0x1"}
<< {"error":{"code":-32600,"message":"[Request ID: test] Invalid Request"},"jsonrpc":"2.0","id":1}

>> {}
<< {"error":{"code":-32600,"message":"[Request ID: test] Invalid Request"},"jsonrpc":"2.0","id":null}

// Namespaces and names.
>> {"jsonrpc":"2.0","id":1,"method":"secret_method"}
<< {"error":{"code":-32601,"message":"[Request ID: test] Method secret_method not found"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"engine_newPayloadV1"}
<< {"error":{"code":-32601,"message":"[Request ID: test] Unsupported JSON-RPC method"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"say \"hi\"\n"}
<< {"error":{"code":-32601,"message":"[Request ID: test] Method say \"hi\"\n not found"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":""}
<< {"error":{"code":-32601,"message":"[Request ID: test] Method  not found"},"jsonrpc":"2.0","id":1}

// Results and errors of handlers.
>> {"jsonrpc":"2.0","id":1,"method":"eth_syncing"}
<< {"result":false,"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_accounts","params":"ignored"}
<< {"result":[],"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_getTransactionByHash","params":["0x1111111111111111111111111111111111111111111111111111111111111111"]}
<< {"result":null,"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"txpool_status"}
<< {"result":{"a":"<b>"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_getFilterLogs"}
<< {"result":{"n":7},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_estimateGas","params":[{}]}
<< {"error":{"code":3,"message":"[Request ID: test] execution reverted: no","data":"0x08c3"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_feeHistory"}
<< {"error":{"code":-32055,"message":"[Request ID: test] too cold","data":[1,2]},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_gasPrice"}
<< {"error":{"code":-32603,"message":"[Request ID: test] Error invoking RPC: dial tcp 10.0.0.1:5551: refused"},"jsonrpc":"2.0","id":1}

// A panic is an error of one call, whether in the handler or in its result.
>> {"jsonrpc":"2.0","id":1,"method":"eth_mining"}
<< {"error":{"code":-32603,"message":"[Request ID: test] Unknown error invoking RPC"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_hashrate"}
<< {"error":{"code":-32603,"message":"[Request ID: test] Unknown error invoking RPC"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"net_peerCount"}
<< {"error":{"code":-32603,"message":"[Request ID: test] Error invoking RPC: encode result: json: unsupported type: chan int"},"jsonrpc":"2.0","id":1}
