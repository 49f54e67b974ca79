package node

import (
	"context"
	"runtime/debug"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"lockstep/devnet/ledger/facts"
	"lockstep/internal/hapi"
)

var transactionMethods = []string{
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

var queryMethods = []string{
	hapi.MethodCryptoGetBalance, hapi.MethodGetAccountInfo,
	hapi.MethodGetTransactionReceipts, hapi.MethodGetTxRecordByTxID,
	hapi.MethodContractCallLocal, hapi.MethodContractGetBytecode, hapi.MethodGetContractInfo,
	hapi.MethodGetTopicInfo, hapi.MethodGetScheduleInfo,
	hapi.MethodGetTokenInfo, hapi.MethodGetTokenNftInfo, hapi.MethodGetAccountDetails,
	hapi.MethodGetFileContent, hapi.MethodGetFileInfo, hapi.MethodGetVersionInfo,
}

// serve answers a call of any method. What it does is decided by its message, not by the method that it came through. A
// transaction of a kind that this network does not have is refused the way a node does it, anything else as gRPC does.
func (n *Node) serve(_ any, stream grpc.ServerStream) (err error) {
	defer n.contain(&err)
	path, _ := grpc.MethodFromServerStream(stream)
	_, method, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch {
	case slices.Contains(transactionMethods, path):
		return answer(stream, n.Submit)
	case slices.Contains(queryMethods, path):
		return answer(stream, n.Query)
	case !strings.HasPrefix(path, "/proto.") || strings.HasPrefix(strings.ToLower(method), "get"):
		return status.Errorf(codes.Unimplemented, "unknown method %s", path)
	default:
		return answer(stream, func(context.Context, *hapi.Transaction) (*hapi.TransactionResponse, error) {
			return &hapi.TransactionResponse{NodeTransactionPrecheckCode: hapi.ResponseCodeEnum_NOT_SUPPORTED}, nil
		})
	}
}

// answer reads the only message of a call and sends what answers it.
func answer[Q, A any](stream grpc.ServerStream, by func(context.Context, *Q) (*A, error)) error {
	asked := new(Q)
	if err := stream.RecvMsg(asked); err != nil {
		return err
	}
	answered, err := by(stream.Context(), asked)
	if err != nil {
		return err
	}
	return stream.SendMsg(answered)
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
