// Objects.
>> {"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"to":null,"data":"0x1234","value":"0x0","unknown":1},"latest"]}
<< {"result":"0x1234","jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_call","params":["0x12","latest"]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid parameter 0: Expected TransactionObject, value: 0x12"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"from":"0x12"},"latest"]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid parameter 'from' for TransactionObject: Expected 0x prefixed string representing the address (20 bytes), value: 0x12"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"data":"0x1"},"latest"]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid parameter 'data' for TransactionObject: Expected 0x prefixed hexadecimal value with even length, value: 0x1"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"gas":100},"latest"]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid parameter 'gas' for TransactionObject: Expected 0x prefixed hexadecimal value, value: 100"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"type":"0x2","authorizationList":[]},"latest"]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid parameter authorizationList: not supported for non-EIP-7702 transaction"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"type":"0x4"},"latest"]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid parameter authorizationList: EIP-7702 transaction with missing auth list"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"type":"0x4","authorizationList":[]},"latest"]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid parameter authorizationList: EIP-7702 transaction with empty auth list"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"authorizationList":[{"address":"0x1111111111111111111111111111111111111111","chainId":"0x1","nonce":"0x1","r":"0x1","s":"0x1"}]},"latest"]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Missing value for required parameter 'yParity' for AuthorizationListEntry"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"type":"0x4","authorizationList":[{"address":"0x1111111111111111111111111111111111111111","chainId":"0x1","nonce":"0x10000000000000000","r":"0x1","s":"0x1","yParity":"0x0"}]},"latest"]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid parameter authorizationList: authorization nonce '0x10000000000000000' exceeds uint64 maximum of 18446744073709551615"},"jsonrpc":"2.0","id":1}

// Block objects.
>> {"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"data":"0x"},{"blockHash":"0x1111111111111111111111111111111111111111111111111111111111111111","requireCanonical":true}]}
<< {"result":"0x","jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"data":"0x"},{"blockNumber":"0x10","blockTag":"x"}]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid parameter 'blockTag' for BlockNumberObject: Unknown parameter"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"data":"0x"},"0x01"]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid parameter 1: Expected Expected 0x prefixed string representing the hash (32 bytes) in object, 0x prefixed hexadecimal block number, or the string \"latest\", \"earliest\" or \"pending\", value: 0x01"},"jsonrpc":"2.0","id":1}

// Filters.
>> {"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[{"address":["0x1111111111111111111111111111111111111111"],"topics":[null,["0x1111111111111111111111111111111111111111111111111111111111111111",null]],"toBlock":"latest"}]}
<< {"result":[],"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[{"limit":5}]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid parameter 'limit' for FilterObject: Unknown parameter"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[{"topics":[["0x12"]]}]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid parameter 'topics' for FilterObject: Expected an array or array of arrays containing Expected 0x prefixed string representing the hash (32 bytes) of a topic, value: [[\"0x12\"]]"},"jsonrpc":"2.0","id":1}

>> {"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[{"blockHash":"0x1111111111111111111111111111111111111111111111111111111111111111","toBlock":"latest"}]}
<< {"error":{"code":-32602,"message":"[Request ID: test] Invalid parameter 0: Can't use both blockHash and toBlock/fromBlock"},"jsonrpc":"2.0","id":1}
