package mirrorrest

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/devnet/ledger"
	"lockstep/internal/hedera"
)

// getFees answers network/fees: the price of gas for each type of transaction
// that pays it. The devnet's price never changes.
func getFees(r *request, q *query) (any, error) {
	fees := []any{}
	for _, kind := range []string{"ContractCall", "ContractCreate", "EthereumTransaction"} {
		fees = append(fees, object{"gas": r.view.GasPrice(), "transaction_type": kind})
	}
	if order, _ := q.last("order"); strings.EqualFold(order, "desc") {
		slices.Reverse(fees)
	}
	return object{"fees": fees, "timestamp": r.asOf(q.timestamps()).Time().String()}, nil
}

// getExchangeRate answers network/exchangerate.
func getExchangeRate(r *request, q *query) (any, error) {
	rate := r.view.ExchangeRate()
	current := object{"cent_equivalent": rate.Cents, "expiration_time": rate.Expires, "hbar_equivalent": rate.Hbar}
	return object{"current_rate": current, "next_rate": current, "timestamp": r.asOf(q.timestamps()).Time().String()}, nil
}

// getSupply answers network/supply; with q it gives one number of ℏ as text.
func getSupply(r *request, q *query) (any, error) {
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
	return object{"released_supply": decimal(int64(released)), "timestamp": view.Time().String(), "total_supply": decimal(int64(total))}, nil
}

func hbars(t hedera.Tinybar) string { return fmt.Sprintf("%d.%08d", t/hedera.Hbar, t%hedera.Hbar) }

func endpoint(host string, port int) object {
	return object{"domain_name": "", "ip_address_v4": host, "port": port}
}

// listNodes answers network/nodes: the address book.
func listNodes(r *request, q *query) (any, error) {
	file := hedera.Entity(addressBook)
	if text, given := q.last("file.id"); given {
		num, _ := parseEntity(text)
		if num != addressBook && num != nodeDetails {
			return nil, invalidParameter("file.id")
		}
		file = hedera.Entity(num)
	}
	return list(r, q, "nodes", inOrder(r.view.Nodes(), q.desc), func(n ledger.NodeInfo) any {
		endpoints := []object{endpoint(n.Host, n.Port)}
		if n.TLSPort != 0 {
			endpoints = append(endpoints, endpoint(n.Host, n.TLSPort))
		}
		return object{
			"admin_key":                   nil,
			"associated_registered_nodes": []int64{},
			"decline_reward":              false,
			"description":                 "",
			"file_id":                     file.String(),
			"grpc_proxy_endpoint":         nil,
			"max_stake":                   0,
			"memo":                        "",
			"min_stake":                   0,
			"node_account_id":             n.Account.String(),
			"node_cert_hash":              "0x" + n.CertHash,
			"node_id":                     n.NodeID,
			"public_key":                  "0x",
			"reward_rate_start":           0,
			"service_endpoints":           endpoints,
			"stake":                       0,
			"stake_not_rewarded":          0,
			"stake_rewarded":              0,
			"staking_period":              nil,
			"timestamp":                   rangeJSON{From: r.view.OldestBlock().From.String()},
		}
	}, byNumber("node.id", func(n ledger.NodeInfo) int64 { return n.NodeID })), nil
}

// The files in which a network keeps its address book, whole and in short.
const (
	nodeDetails = 101
	addressBook = 102
)

// getStake answers network/stake: nothing is staked on a devnet. A staking period
// is a day.
func getStake(r *request, _ *query) (any, error) {
	const day = 24 * 60 * 60
	now := r.view.Time().Seconds
	from := hedera.Timestamp{Seconds: now - now%day}
	to := hedera.Timestamp{Seconds: from.Seconds + day - 1, Nanos: 999_999_999}
	return object{
		"max_stake_rewarded":                0,
		"max_staking_reward_rate_per_hbar":  0,
		"max_total_reward":                  0,
		"node_reward_fee_fraction":          0,
		"reserved_staking_rewards":          0,
		"reward_balance_threshold":          0,
		"stake_total":                       0,
		"staking_period":                    rangeJSON{From: from.String(), To: new(to.String())},
		"staking_period_duration":           day / 60,
		"staking_periods_stored":            365,
		"staking_reward_fee_fraction":       0,
		"staking_reward_rate":               0,
		"staking_start_threshold":           0,
		"unreserved_staking_reward_balance": 0,
	}, nil
}
