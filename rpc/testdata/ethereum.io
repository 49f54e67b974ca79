// profile: ethereum
// The manners of Ethereum nodes: no prefix, nothing of unforeseen errors, and no
// answer to calls without an id.
>> {"jsonrpc":"2.0","id":1,"method":"eth_nope"}
<< {"error":{"code":-32601,"message":"the method eth_nope does not exist/is not available"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_gasPrice"}
<< {"error":{"code":-32603,"message":"internal error"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_mining"}
<< {"error":{"code":-32603,"message":"internal error"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0",
<< {"error":{"code":-32700,"message":"parse error"},"jsonrpc":"2.0","id":null}

>> 5
<< {"error":{"code":-32600,"message":"invalid request"},"jsonrpc":"2.0","id":null}

>> {"jsonrpc":"2.0","method":"eth_chainId"}
<<

>> {"jsonrpc":"2.0","method":"eth_accounts"}
<<

>> [{"jsonrpc":"2.0","method":"eth_chainId"},{"jsonrpc":"2.0","method":"eth_accounts"}]
<<

>> [{"jsonrpc":"2.0","method":"eth_chainId"},{"jsonrpc":"2.0","id":2,"method":"eth_accounts"},{"jsonrpc":"2.0","method":"eth_nope"},{"jsonrpc":"2.0","method":"eth_mining"}]
<< [{"result":[],"jsonrpc":"2.0","id":2}]

>> {"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0x1111111111111111111111111111111111111111",null]}
<< {"result":"0x1","jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":[]}
<< {"error":{"code":-32602,"message":"missing value for required argument 0"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":[null,"latest"]}
<< {"error":{"code":-32602,"message":"missing value for required argument 0"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":{"a":1}}
<< {"error":{"code":-32602,"message":"missing value for required argument 0"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":"x"}
<< {"error":{"code":-32602,"message":"non-array args"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0x1111111111111111111111111111111111111111","latest","0x1"]}
<< {"error":{"code":-32602,"message":"too many arguments, want at most 2"},"jsonrpc":"2.0","id":1}
