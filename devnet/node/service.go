package node

import (
	"context"
	"runtime/debug"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"lockstep/devnet/ledger/facts"
	"lockstep/internal/hapi"
)

func transactionMethods() []string {
	return []string{
		hapi.MethodCreateAccount, hapi.MethodUpdateAccount, hapi.MethodCryptoTransfer, hapi.MethodCryptoDelete,
		hapi.MethodCallEthereum, hapi.MethodCreateContract, hapi.MethodContractCall,
		hapi.MethodUpdateContract, hapi.MethodDeleteContract, hapi.MethodPrng, hapi.MethodAtomicBatch,
		hapi.MethodCreateTopic, hapi.MethodUpdateTopic, hapi.MethodDeleteTopic, hapi.MethodSubmitMessage,
		hapi.MethodCreateSchedule, hapi.MethodSignSchedule, hapi.MethodDeleteSchedule,
		hapi.MethodApproveAllowances, hapi.MethodDeleteAllowances,
		hapi.MethodCreateToken, hapi.MethodUpdateToken, hapi.MethodMintToken, hapi.MethodBurnToken, hapi.MethodDeleteToken,
		hapi.MethodWipeTokenAccount, hapi.MethodFreezeTokenAccount, hapi.MethodUnfreezeTokenAccount,
		hapi.MethodGrantKyc, hapi.MethodRevokeKyc, hapi.MethodAssociateTokens, hapi.MethodDissociateTokens,
		hapi.MethodUpdateTokenFeeSchedule, hapi.MethodPauseToken, hapi.MethodUnpauseToken, hapi.MethodUpdateNfts,
		hapi.MethodAirdropTokens, hapi.MethodClaimAirdrop, hapi.MethodCancelAirdrop, hapi.MethodRejectToken,
		hapi.MethodCreateFile, hapi.MethodUpdateFile, hapi.MethodDeleteFile, hapi.MethodAppendContent,
	}
}

func queryMethods() []string {
	return []string{
		hapi.MethodCryptoGetBalance, hapi.MethodGetAccountInfo,
		hapi.MethodGetTransactionReceipts, hapi.MethodGetTxRecordByTxID,
		hapi.MethodContractCallLocal, hapi.MethodContractGetBytecode, hapi.MethodGetContractInfo,
		hapi.MethodGetTopicInfo, hapi.MethodGetScheduleInfo,
		hapi.MethodGetTokenInfo, hapi.MethodGetTokenNftInfo, hapi.MethodGetAccountDetails,
		hapi.MethodGetFileContent, hapi.MethodGetFileInfo, hapi.MethodGetVersionInfo,
	}
}

// services builds the method tables. What a call does is decided by its message,
// not by the method it came through, so there are two handlers only.
func services() []*grpc.ServiceDesc {
	byName := map[string]*grpc.ServiceDesc{}
	var list []*grpc.ServiceDesc
	add := func(path string, handler grpc.MethodHandler) {
		service, method, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		desc := byName[service]
		if desc == nil {
			desc = &grpc.ServiceDesc{ServiceName: service, HandlerType: (*any)(nil)}
			byName[service] = desc
			list = append(list, desc)
		}
		desc.Methods = append(desc.Methods, grpc.MethodDesc{MethodName: method, Handler: handler})
	}
	for _, path := range transactionMethods() {
		add(path, submitHandler)
	}
	for _, path := range queryMethods() {
		add(path, queryHandler)
	}
	return list
}

func submitHandler(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (_ any, err error) {
	defer srv.(*Node).contain(&err)
	tx := new(hapi.Transaction)
	if err := decode(tx); err != nil {
		return nil, err
	}
	return srv.(*Node).Submit(ctx, tx)
}

func queryHandler(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (_ any, err error) {
	defer srv.(*Node).contain(&err)
	query := new(hapi.Query)
	if err := decode(query); err != nil {
		return nil, err
	}
	return srv.(*Node).Query(ctx, query)
}

// contain turns a panic, which is a bug here, into the failure of one call.
func (n *Node) contain(err *error) {
	if p := recover(); p != nil {
		if failed, ok := p.(*facts.UpstreamError); ok {
			*err = status.Error(codes.Unavailable, failed.Error())
			return
		}
		n.log.Error("panic while a call was answered", "node", n.account.String(), "panic", p, "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "internal error")
	}
}

// unsupported answers methods that this network does not have: transactions the way
// a node refuses them, anything else as gRPC does.
func unsupported(_ any, stream grpc.ServerStream) error {
	path, _ := grpc.MethodFromServerStream(stream)
	_, method, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if !strings.HasPrefix(path, "/proto.") || strings.HasPrefix(strings.ToLower(method), "get") {
		return status.Errorf(codes.Unimplemented, "unknown method %s", path)
	}
	if err := stream.RecvMsg(new(hapi.Transaction)); err != nil {
		return err
	}
	return stream.SendMsg(&hapi.TransactionResponse{NodeTransactionPrecheckCode: hapi.ResponseCodeEnum_NOT_SUPPORTED})
}
