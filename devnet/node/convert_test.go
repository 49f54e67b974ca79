package node

import (
	"testing"

	"lockstep/devnet/ledger/state"
	"lockstep/internal/hapi"
	"lockstep/internal/hedera"
)

// An account or a contract tells whom it stakes to; the day since which is told only of a stake to a node.
func TestStakingInfo(t *testing.T) {
	since := hedera.Timestamp{Seconds: 1_767_225_600}
	for name, info := range map[string]func(state.Account) *hapi.StakingInfo{
		"account":  func(a state.Account) *hapi.StakingInfo { return accountInfo(a).GetStakingInfo() },
		"contract": func(a state.Account) *hapi.StakingInfo { return contractInfo(a, 0).GetStakingInfo() },
	} {
		if got := info(state.Account{Description: state.Description{StakedNode: -1}}); got.GetStakedId() != nil || got.GetStakePeriodStart() != nil {
			t.Errorf("%s without a stake: %v", name, got)
		}
		node := info(state.Account{Description: state.Description{DeclineReward: true, StakePeriodStart: since}})
		if _, chosen := node.GetStakedId().(*hapi.StakingInfo_StakedNodeId); !chosen || !node.GetDeclineReward() || node.GetStakePeriodStart().GetSeconds() != since.Seconds {
			t.Errorf("%s with a node: %v", name, node)
		}
		if got := info(state.Account{Description: state.Description{StakedNode: -1, StakedAccount: hedera.Entity(2)}}); got.GetStakedAccountId().GetAccountNum() != 2 || got.GetStakePeriodStart() != nil {
			t.Errorf("%s with an account: %v", name, got)
		}
	}
}
