// Batches: one answer per item, in the order of the request.
>> []
<< []

>> [{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}]
<< [{"result":"0x12a","jsonrpc":"2.0","id":1}]

>> [ {"jsonrpc":"2.0","id":"a","method":"eth_accounts"} , {"jsonrpc":"2.0","id":"b","method":"eth_chainId"}, null, 5, [], {"jsonrpc":"2.0","id":"c","method":"eth_mining"}, {"jsonrpc":"2.0","id":"d","method":"eth_getFilterLogs"}, {"jsonrpc":"2.0","id":{},"method":"eth_chainId"}, {"jsonrpc":"2.0","id":"e","method":"eth_chainId"} ]
<< [{"result":[],"jsonrpc":"2.0","id":"a"},{"result":"0x12a","jsonrpc":"2.0","id":"b"},{"error":{"code":-32600,"message":"[Request ID: test] Invalid Request"},"jsonrpc":"2.0","id":null},{"error":{"code":-32600,"message":"[Request ID: test] Invalid Request"},"jsonrpc":"2.0","id":null},{"error":{"code":-32600,"message":"[Request ID: test] Invalid Request"},"jsonrpc":"2.0","id":null},{"error":{"code":-32603,"message":"[Request ID: test] Unknown error invoking RPC"},"jsonrpc":"2.0","id":"c"},{"result":{"n":7},"jsonrpc":"2.0","id":"d"},{"error":{"code":-32600,"message":"[Request ID: test] Invalid Request"},"jsonrpc":"2.0","id":null},{"result":"0x12a","jsonrpc":"2.0","id":"e"}]

// A method that must not be in a batch, and ids that are not unique.
>> [{"jsonrpc":"2.0","id":1,"method":"eth_newFilter","params":[{}]},{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}]
<< [{"error":{"code":-32007,"message":"[Request ID: test] Method eth_newFilter is not permitted as part of batch requests"},"jsonrpc":"2.0","id":1},{"result":"0x12a","jsonrpc":"2.0","id":1}]

// Outside of a batch it is served.
>> {"jsonrpc":"2.0","id":1,"method":"eth_newFilter","params":[{}]}
<< {"result":"0x1","jsonrpc":"2.0","id":1}
