package mirrorrest

import (
	"fmt"
	"strings"

	"lockstep/internal/hedera"
)

type feeJSON struct {
	Gas             hedera.Tinybar `json:"gas"`
	TransactionType string         `json:"transaction_type"`
}

// getFees answers network/fees: the price of gas for each type of transaction
// that pays it. The devnet's price never changes.
func getFees(r *request) (any, error) {
	q, err := r.query(params{"timestamp": isTime, "order": oneOf("asc", "desc")}, single)
	if err != nil {
		return nil, err
	}
	fees := []feeJSON{
		{r.view.GasPrice(), "ContractCall"},
		{r.view.GasPrice(), "ContractCreate"},
		{r.view.GasPrice(), "EthereumTransaction"},
	}
	if order, _ := q.last("order"); strings.EqualFold(order, "desc") {
		fees[0], fees[2] = fees[2], fees[0]
	}
	return struct {
		Fees      []feeJSON `json:"fees"`
		Timestamp string    `json:"timestamp"`
	}{fees, r.asOf(q.timestamps()).Time().String()}, nil
}

type rateJSON struct {
	Cents      int32 `json:"cent_equivalent"`
	Expiration int64 `json:"expiration_time"`
	Hbars      int32 `json:"hbar_equivalent"`
}

// getExchangeRate answers network/exchangerate.
func getExchangeRate(r *request) (any, error) {
	q, err := r.query(params{"timestamp": isTime}, single)
	if err != nil {
		return nil, err
	}
	rate := r.view.ExchangeRate()
	current := rateJSON{Cents: rate.Cents, Expiration: rate.Expires, Hbars: rate.Hbar}
	return struct {
		Current   rateJSON `json:"current_rate"`
		Next      rateJSON `json:"next_rate"`
		Timestamp string   `json:"timestamp"`
	}{current, current, r.asOf(q.timestamps()).Time().String()}, nil
}

// getSupply answers network/supply; with q it gives one number of ℏ as text.
func getSupply(r *request) (any, error) {
	q, err := r.query(params{"timestamp": isTime, "q": oneOf("totalcoins", "circulating")}, single)
	if err != nil {
		return nil, err
	}
	view := r.asOf(q.timestamps())
	total, released := view.Supply()
	if total == 0 {
		return nil, notFound() // before the beginning
	}
	switch which, _ := q.last("q"); strings.ToLower(which) {
	case "totalcoins":
		return plain(hbars(total)), nil
	case "circulating":
		return plain(hbars(released)), nil
	}
	return struct {
		Released  string `json:"released_supply"`
		Timestamp string `json:"timestamp"`
		Total     string `json:"total_supply"`
	}{decimal(int64(released)), view.Time().String(), decimal(int64(total))}, nil
}

func hbars(t hedera.Tinybar) string { return fmt.Sprintf("%d.%08d", t/hedera.Hbar, t%hedera.Hbar) }

type endpointJSON struct {
	DomainName  string `json:"domain_name"`
	IPAddressV4 string `json:"ip_address_v4"`
	Port        int    `json:"port"`
}

type nodeJSON struct {
	AdminKey                  *keyJSON       `json:"admin_key"`
	AssociatedRegisteredNodes []int64        `json:"associated_registered_nodes"`
	DeclineReward             bool           `json:"decline_reward"`
	Description               string         `json:"description"`
	FileID                    string         `json:"file_id"`
	GRPCProxyEndpoint         *endpointJSON  `json:"grpc_proxy_endpoint"`
	MaxStake                  int64          `json:"max_stake"`
	Memo                      string         `json:"memo"`
	MinStake                  int64          `json:"min_stake"`
	NodeAccountID             string         `json:"node_account_id"`
	NodeCertHash              string         `json:"node_cert_hash"`
	NodeID                    int64          `json:"node_id"`
	PublicKey                 string         `json:"public_key"`
	RewardRateStart           int64          `json:"reward_rate_start"`
	ServiceEndpoints          []endpointJSON `json:"service_endpoints"`
	Stake                     int64          `json:"stake"`
	StakeNotRewarded          int64          `json:"stake_not_rewarded"`
	StakeRewarded             int64          `json:"stake_rewarded"`
	StakingPeriod             *rangeJSON     `json:"staking_period"`
	Timestamp                 rangeJSON      `json:"timestamp"`
}

type nodesJSON struct {
	Nodes []nodeJSON `json:"nodes"`
	paged
}

// listNodes answers network/nodes: the address book.
func listNodes(r *request) (any, error) {
	q, err := r.query(params{
		"file.id": func(op operator, v string) bool { return op == eq && isEntity(op, v) },
		"node.id": isCount,
	}, ascending)
	if err != nil {
		return nil, err
	}
	file := hedera.Entity(addressBook)
	if text, given := q.last("file.id"); given {
		num, _ := parseEntity(text)
		if num != addressBook && num != nodeDetails {
			return nil, invalidParameter("file.id")
		}
		file = hedera.Entity(num)
	}
	out := nodesJSON{Nodes: []nodeJSON{}}
	ids := q.bounds("node.id", parseCount)
	nodes := r.view.Nodes()
	for i := range nodes {
		n := nodes[i]
		if q.desc {
			n = nodes[len(nodes)-1-i]
		}
		if !ids.allows(n.NodeID) {
			continue
		}
		endpoints := []endpointJSON{{IPAddressV4: n.Host, Port: n.Port}}
		if n.TLSPort != 0 {
			endpoints = append(endpoints, endpointJSON{IPAddressV4: n.Host, Port: n.TLSPort})
		}
		out.Nodes = append(out.Nodes, nodeJSON{
			AssociatedRegisteredNodes: []int64{},
			FileID:                    file.String(),
			NodeAccountID:             n.Account.String(),
			NodeCertHash:              "0x" + n.CertHash,
			NodeID:                    n.NodeID,
			PublicKey:                 "0x",
			ServiceEndpoints:          endpoints,
			Timestamp:                 rangeJSON{From: r.view.OldestBlock().From.String()},
		})
		if len(out.Nodes) == q.limit {
			full := !ids.ends(n.NodeID, q.desc)
			out.Links = q.next(r.self(), full, cursor{name: "node.id", value: decimal(n.NodeID)})
			break
		}
	}
	return out, nil
}

// The files in which a network keeps its address book, whole and in short.
const (
	nodeDetails = 101
	addressBook = 102
)

type stakeJSON struct {
	MaxStakeRewarded               int64     `json:"max_stake_rewarded"`
	MaxStakingRewardRatePerHbar    int64     `json:"max_staking_reward_rate_per_hbar"`
	MaxTotalReward                 int64     `json:"max_total_reward"`
	NodeRewardFeeFraction          float64   `json:"node_reward_fee_fraction"`
	ReservedStakingRewards         int64     `json:"reserved_staking_rewards"`
	RewardBalanceThreshold         int64     `json:"reward_balance_threshold"`
	StakeTotal                     int64     `json:"stake_total"`
	StakingPeriod                  rangeJSON `json:"staking_period"`
	StakingPeriodDuration          int64     `json:"staking_period_duration"`
	StakingPeriodsStored           int64     `json:"staking_periods_stored"`
	StakingRewardFeeFraction       float64   `json:"staking_reward_fee_fraction"`
	StakingRewardRate              int64     `json:"staking_reward_rate"`
	StakingStartThreshold          int64     `json:"staking_start_threshold"`
	UnreservedStakingRewardBalance int64     `json:"unreserved_staking_reward_balance"`
}

// getStake answers network/stake: nothing is staked on a devnet. A staking period
// is a day.
func getStake(r *request) (any, error) {
	if _, err := r.query(nil, single); err != nil {
		return nil, err
	}
	const day = 24 * 60 * 60
	now := r.view.Time().Seconds
	from := hedera.Timestamp{Seconds: now - now%day}
	to := hedera.Timestamp{Seconds: from.Seconds + day - 1, Nanos: 999_999_999}
	return stakeJSON{
		StakingPeriod:         rangeJSON{From: from.String(), To: ptr(to.String())},
		StakingPeriodDuration: day / 60,
		StakingPeriodsStored:  365,
	}, nil
}
