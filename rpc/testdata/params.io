// The shape of params.
>> {"jsonrpc":"2.0","id":1,"method":"eth_getBalance"}
<< {"error":{"code":-32602,"message":"[Request ID: test] Missing value for required parameter 0"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":{"address":"0x1111111111111111111111111111111111111111"}}
<< {"error":{"code":-32602,"message":"[Request ID: test] Missing value for required parameter 0"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":"0x1111111111111111111111111111111111111111"}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid params"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0x1111111111111111111111111111111111111111","latest",1]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid params"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"txpool_status","params":[1]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid params"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0x1111111111111111111111111111111111111111"]}
<< {"result":"0x1","jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":[ "0X11111111111111111111111111111111111111Ab" , "latest" ]}
<< {"result":"0x1","jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":[null]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid parameter 0: The value passed is not valid: null."},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0x1111111111111111111111111111111111111111",null]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid parameter 1: The value passed is not valid: null."},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0x11"]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid parameter 0: Expected 0x prefixed string representing the address (20 bytes), value: 0x11"},"jsonrpc":"2.0","id":1}

// An array in place of a scalar is invalid, also if it holds a valid one.
>> {"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":[["0x1111111111111111111111111111111111111111"]]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid parameter 0: Expected 0x prefixed string representing the address (20 bytes), value: [\"0x1111111111111111111111111111111111111111\"]"},"jsonrpc":"2.0","id":1}

// A union lists its types.
>> {"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0x1111111111111111111111111111111111111111","newest"]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid parameter 1: The value passed is not valid: newest. Expected 0x prefixed hexadecimal block number, or the string \"latest\", \"earliest\" or \"pending\" OR Expected Expected 0x prefixed string representing the hash (32 bytes) of a block"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0x1111111111111111111111111111111111111111",{"blockNumber":"0x1"}]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid parameter 1: The value passed is not valid: [object Object]. Expected 0x prefixed hexadecimal block number, or the string \"latest\", \"earliest\" or \"pending\" OR Expected Expected 0x prefixed string representing the hash (32 bytes) of a block"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"web3_sha3","params":["0x123"]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid parameter 0: Expected 0x prefixed hexadecimal value with even length, value: 0x123"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"web3_sha3","params":[5]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid parameter 0: Expected 0x prefixed hexadecimal value with even length, value: 5"},"jsonrpc":"2.0","id":1}

// Objects.
>> {"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"to":null,"data":"0x1234","value":"0x0","unknown":1},"latest"]}
<< {"result":"0x1234","jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_call","params":["0x12","latest"]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid parameter 0: Expected TransactionObject, value: 0x12"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"data":"0x1"},"latest"]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid parameter 'data' for TransactionObject: Expected 0x prefixed hexadecimal value with even length, value: 0x1"},"jsonrpc":"2.0","id":1}
