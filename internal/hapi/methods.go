package hapi

// gRPC paths of the HAPI methods that Lockstep calls or serves.
const (
	MethodCreateAccount          = "/proto.CryptoService/createAccount"
	MethodUpdateAccount          = "/proto.CryptoService/updateAccount"
	MethodCryptoTransfer         = "/proto.CryptoService/cryptoTransfer"
	MethodCryptoDelete           = "/proto.CryptoService/cryptoDelete"
	MethodCryptoGetBalance       = "/proto.CryptoService/cryptoGetBalance"
	MethodGetAccountInfo         = "/proto.CryptoService/getAccountInfo"
	MethodGetTransactionReceipts = "/proto.CryptoService/getTransactionReceipts"
	MethodGetTxRecordByTxID      = "/proto.CryptoService/getTxRecordByTxID"

	MethodCallEthereum        = "/proto.SmartContractService/callEthereum"
	MethodCreateContract      = "/proto.SmartContractService/createContract"
	MethodContractCall        = "/proto.SmartContractService/contractCallMethod"
	MethodContractCallLocal   = "/proto.SmartContractService/contractCallLocalMethod"
	MethodContractGetBytecode = "/proto.SmartContractService/ContractGetBytecode"
	MethodGetContractInfo     = "/proto.SmartContractService/getContractInfo"

	MethodCreateFile     = "/proto.FileService/createFile"
	MethodUpdateFile     = "/proto.FileService/updateFile"
	MethodDeleteFile     = "/proto.FileService/deleteFile"
	MethodAppendContent  = "/proto.FileService/appendContent"
	MethodGetFileContent = "/proto.FileService/getFileContent"
	MethodGetFileInfo    = "/proto.FileService/getFileInfo"

	MethodGetVersionInfo = "/proto.NetworkService/getVersionInfo"
)
