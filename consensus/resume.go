package consensus

import (
	"time"

	"github.com/ethereum/go-ethereum/common"

	"lockstep/hedera"
)

// Pending returns a handle on a transaction that was submitted earlier, by this
// process or another, and that the given node accepted. If the node is not one of
// this network's, another is asked for the receipt.
func (c *Client) Pending(id hedera.TransactionID, node hedera.ID) *Pending {
	n := c.nodes.find(node)
	if n == nil {
		n = c.nodes.best(common.Address{}, nil)
	}
	return &Pending{client: c, id: id, node: n, since: time.Now()}
}
